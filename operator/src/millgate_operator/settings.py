"""OperatorSettings ⇄ environment: everything an installation can set, as one frozen value.

Each field has a variable MILLGATE_OPERATOR_<FIELD>; the chart writes them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from millgate.errors import InvalidInput, InvalidSettings
from millgate.limits import parse_duration

PREFIX: Final = "MILLGATE_OPERATOR_"


def environment() -> Mapping[str, str]:
    """The process environment: the operator's one place that reads it."""
    return os.environ


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """How one operator works. Times in seconds."""

    namespaces: tuple[str, ...] = ()  # those watched; empty: all, which needs a ClusterRole
    namespace: str = "default"  # its own: where its Lease is
    identity: str = ""  # in the Lease; the pod's name
    lease: str = "millgate-operator"  # name of the Lease; empty: no election, one operator only
    broker_image: str = "millgate-operator:latest"  # runs Local brokers: has `millgate brokerd`
    broker_pull_policy: str = "IfNotPresent"
    local_address: str = "{service}.{namespace}.svc:7411"  # how the operator reaches a Local broker
    listen: str = "0.0.0.0:8081"  # /healthz /readyz /metrics
    workers: int = 10  # reconciliations at once
    resync: float = 600.0
    tick: float = 5.0  # between two looks of the autoscaler at a pool
    zero_tick: float = 1.5  # the same while a pool is at zero: a first task is noticed within it
    broker_deadline: float = 5.0
    canary: float = 120.0  # without a sign of life from the watch the operator ends; 0: never
    log_format: str = "json"
    log_level: str = "info"

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> OperatorSettings:
        """Settings from variables. Raises InvalidSettings, naming the variable and what to write."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            variable = PREFIX + field.name.upper()
            raw = environ.get(variable)
            if not raw and not (raw == "" and field.name == "lease"):
                continue
            try:
                values[field.name] = _read(raw or "", field.default)
            except (InvalidInput, ValueError) as error:
                raise InvalidSettings(f"{variable}: {error}") from error
        settings = cls(**values)
        settings.check()
        return settings

    def check(self) -> None:
        """Raise InvalidSettings for values that cannot be used."""
        rules: tuple[tuple[bool, str], ...] = (
            (self.workers >= 1, "WORKERS: at least 1"),
            (self.resync >= 1, "RESYNC: at least 1s"),
            (self.tick >= 0.5, "TICK: at least 500ms"),
            (self.zero_tick >= 0.2, "ZERO_TICK: at least 200ms"),
            (":" in self.listen, "LISTEN: write it like 0.0.0.0:8081"),
            (self.log_format in ("json", "text"), "LOG_FORMAT: json or text"),
            (
                self.log_level in ("debug", "info", "warning", "error"),
                "LOG_LEVEL: one of debug, info, warning, error",
            ),
        )
        for holds, complaint in rules:
            if not holds:
                raise InvalidSettings(PREFIX + complaint)


def _read(raw: str, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(part.strip() for part in raw.split(",") if part.strip())
    if isinstance(default, float):
        return parse_duration(raw)
    if isinstance(default, int):
        return int(raw)
    return raw
