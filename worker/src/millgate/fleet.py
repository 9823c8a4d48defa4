"""Who works: the registry's values. A worker is a name and an incarnation, one start of it. Frozen, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from millgate.frozen import dataclass

#: Seconds without a sign of life after which a worker is forgotten; its claims fell back with their leases before.
WORKER_TTL: Final = 90.0


class WorkerState(StrEnum):
    """What the broker thinks of a worker; only an ACTIVE one is given claims."""

    ACTIVE = "Active"
    FENCED = "Fenced"  # may finish and settle, not claim
    UNKNOWN = "Unknown"  # never registered, forgotten, or another incarnation has the name


@dataclass(frozen=True, slots=True)
class WorkerRef:
    """One start of one worker. The newest registration of a name wins; the older one is UNKNOWN from then on."""

    name: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker says of itself when it registers."""

    slots: int = 1
    host: str = ""
    pid: int = 0
    version: str = ""
    topics: str = "*"  # its subscription in words


@dataclass(frozen=True, slots=True)
class Beat:
    """What a worker says of itself with every renewal; `busy` counts runs, not buffered claims."""

    busy: int = 0
    buffered: int = 0
    revision: int = 0  # the configuration that it has read
    rss: int | None = None  # bytes of supervisor and trees together; None: not measured
    oldest: float | None = None  # seconds that its longest run has lasted
    draining: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)  # small, JSON types


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker as the broker knows it. `leased` is counted by the broker, in the same step as everything else."""

    name: str
    incarnation: str
    state: WorkerState
    seen: float  # seconds since its last sign of life
    leased: int
    info: WorkerInfo
    beat: Beat
    fence_left: float | None = None  # seconds until its fence ends by itself

    @property
    def idle(self) -> bool:
        """Whether removing it interrupts nothing; only meaningful while it is fenced."""
        return self.leased == 0 and self.beat.busy == 0
