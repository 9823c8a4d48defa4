"""Classes of the user that travel as arguments and results: known by a name, in this process only."""

from __future__ import annotations

from collections.abc import Callable

from millgate.errors import InvalidInput
from millgate.frozen import dataclass
from millgate.hints import Any, TypeVar

C = TypeVar("C", bound=type)


@dataclass(frozen=True, slots=True)
class Hook:
    """How a registered class travels: its name, and both directions."""

    name: str
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


by_class: dict[type, Hook] = {}
by_name: dict[str, Hook] = {}


def register(
    cls: C,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> C:
    """Let instances of `cls` travel as arguments and results; answers `cls`, so it serves as a decorator.

    Dataclasses, enums, named tuples, pydantic models and msgspec structs need nothing else. Other classes give
    `encode` (to something that travels) and `decode` (back). `name` is what is written; it must stay the same on
    both sides, so give one before moving the class. Raises InvalidInput.
    """
    if (encode is None) != (decode is None):
        raise InvalidInput(f"{cls.__qualname__}: give encode and decode together")
    name = name or f"{cls.__module__}:{cls.__qualname__}"
    if encode is None or decode is None:
        encode, decode = _derive(cls)
    known = by_name.get(name)
    if known is not None and cls not in by_class:
        raise InvalidInput(f"{name!r} is registered for another class; give this one a name")
    by_class[cls] = by_name[name] = Hook(name, encode, decode)
    return cls


def _derive(cls: type) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if hasattr(cls, "__members__"):  # enum; flags may have values without a name, so values travel
        return (lambda member: member.value), cls
    if hasattr(cls, "model_dump_json") and hasattr(cls, "model_validate_json"):  # pydantic 2
        return (lambda model: model.model_dump_json(by_alias=True, round_trip=True)), (
            cls.model_validate_json
        )
    names = _field_names(cls)
    if names is None:
        raise InvalidInput(
            f"{cls.__qualname__} is no dataclass, enum, named tuple, pydantic model or msgspec struct;"
            " give encode and decode"
        )
    return (lambda value: {name: getattr(value, name) for name in names}), (
        lambda fields: cls(**fields)
    )


def _field_names(cls: Any) -> tuple[str, ...] | None:
    if hasattr(cls, "__dataclass_fields__"):
        fields = cls.__dataclass_fields__.values()
        return tuple(field.name for field in fields if field.init)
    names = getattr(cls, "__struct_fields__", None) or getattr(cls, "_fields", None)
    return tuple(names) if names is not None else None
