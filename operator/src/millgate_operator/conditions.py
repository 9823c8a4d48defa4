"""Conditions as Kubernetes shapes them: lists by type, with the time of the last change of status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Condition:
    """One answer: `status` None is Unknown. `bad` says which answer deserves a warning."""

    type: str
    status: bool | None
    reason: str
    message: str = ""
    bad: bool = False


def yes(kind: str, reason: str, message: str = "", *, bad: bool = False) -> Condition:
    """True."""
    return Condition(kind, True, reason, message, bad)


def no(kind: str, reason: str, message: str = "", *, bad: bool = True) -> Condition:
    """False."""
    return Condition(kind, False, reason, message, bad)


_WORDS = {True: "True", False: "False", None: "Unknown"}


def written(
    conditions: Iterable[Condition],
    before: Sequence[Mapping[str, Any]],
    generation: int,
    now: float,
) -> list[dict[str, Any]]:
    """Conditions for `status`; one whose status is as before keeps its time."""
    earlier = {condition["type"]: condition for condition in before}
    return [
        _write(condition, earlier.get(condition.type), generation, now) for condition in conditions
    ]


def _write(
    condition: Condition, before: Mapping[str, Any] | None, generation: int, now: float
) -> dict[str, Any]:
    status = _WORDS[condition.status]
    same = before is not None and before.get("status") == status
    return {
        "type": condition.type,
        "status": status,
        "reason": condition.reason,
        "message": condition.message[:LONGEST],
        "lastTransitionTime": before["lastTransitionTime"] if same and before else stamp(now),
        "observedGeneration": generation,
    }


def changes(
    conditions: Iterable[Condition], before: Sequence[Mapping[str, Any]]
) -> list[Condition]:
    """Those that answer otherwise than before, or for another reason; new ones only when they are bad."""
    earlier = {condition["type"]: condition for condition in before}
    return [one for one in conditions if _is_news(one, earlier.get(one.type))]


def _is_news(condition: Condition, before: Mapping[str, Any] | None) -> bool:
    if before is None:
        return condition.bad
    now = (_WORDS[condition.status], condition.reason)
    return (before.get("status"), before.get("reason")) != now


def stamp(now: float) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
