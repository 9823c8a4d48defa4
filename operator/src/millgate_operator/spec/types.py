"""The base of every manifest model: its field types, and rules that hold both in CEL and in Python. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from millgate.limits import parse_duration

DURATION_PATTERN = r"^([0-9]+(ms|s|m|h))+$"
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$"
PERCENT_PATTERN = r"^([1-9][0-9]?%|100%)$"
CEILING_PATTERN = r"^([0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?|[1-9][0-9]?%|100%)$"
TOPIC_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:-]*$"
PREFIX_PATTERN = r"^[a-z0-9][a-z0-9._-]*$"
GLOB_PATTERN = r"^[A-Za-z0-9._:\[\]!?*-]+$"


@dataclass(frozen=True, slots=True)
class Rule:
    """One sentence about several fields: the API server checks `cel`, everyone without one calls `holds`.

    A rule without `holds` compares with the object's earlier state (`oldSelf`), which only the server knows.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None


class Model(BaseModel):
    """A part of a manifest: frozen, camelCase outside, complaining about what it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )
    rules: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _obey_rules(self) -> Model:
        for rule in self.rules:
            if rule.holds is not None and not rule.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        if cls.rules:
            handler.resolve_ref_schema(schema)["x-kubernetes-validations"] = [
                {"rule": rule.cel, "message": rule.message} for rule in cls.rules
            ]
        return schema


class Open(Model):
    """A part that Kubernetes itself checks: fields that are not named here are carried as they are."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        populate_by_name=True,
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )


def _int_or_string(pattern: str) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": pattern,
            "maxLength": 32,
        }
    )


Duration = Annotated[str, Field(pattern=DURATION_PATTERN, max_length=32)]
_Count = Annotated[int, Field(ge=0)]
_QuantityText = Annotated[str, Field(pattern=QUANTITY_PATTERN, max_length=32)]
_CeilingText = Annotated[str, Field(pattern=CEILING_PATTERN, max_length=32)]
_PercentText = Annotated[str, Field(pattern=PERCENT_PATTERN, max_length=32)]
Quantity = Annotated[_Count | _QuantityText, _int_or_string(QUANTITY_PATTERN)]
MemoryCeiling = Annotated[_Count | _CeilingText, _int_or_string(CEILING_PATTERN)]
PodCount = Annotated[_Count | _PercentText, _int_or_string(PERCENT_PATTERN)]
ObjectName = Annotated[
    str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253)
]
MAX_TOPIC_NAME = 128
TopicName = Annotated[str, Field(pattern=TOPIC_PATTERN, max_length=MAX_TOPIC_NAME)]
Glob = Annotated[str, Field(pattern=GLOB_PATTERN, min_length=1, max_length=128)]


def seconds(text: str | None) -> float | None:
    """Seconds of a Duration field; None when it is not set."""
    return None if text is None else parse_duration(text)


def at_least(field: str, alias: str, least: str) -> Rule:
    """A rule that bounds a Duration field from below."""

    def holds(model: Any) -> bool:
        value = getattr(model, field)
        return value is None or parse_duration(value) >= parse_duration(least)

    return Rule(
        f"!has(self.{alias}) || duration(self.{alias}) >= duration('{least}')",
        f"{alias} must be at least {least}",
        holds,
    )


def at_most(field: str, alias: str, most: str) -> Rule:
    """A rule that bounds a Duration field from above."""

    def holds(model: Any) -> bool:
        value = getattr(model, field)
        return value is None or parse_duration(value) <= parse_duration(most)

    return Rule(
        f"!has(self.{alias}) || duration(self.{alias}) <= duration('{most}')",
        f"{alias} must be at most {most}",
        holds,
    )
