"""Judges a run full of faults by what its tasks wrote: nothing lost, nothing run beside a live owner. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """One start of one task; `end` None: it never wrote its last line."""

    id: str
    pid: int
    start: float
    end: float | None


@dataclass(frozen=True)
class Verdict:
    """What is wrong, by id; both empty means that every promise held."""

    lost: tuple[str, ...]  # accepted, and neither run to its end nor in the dead letters
    beside: tuple[str, ...]  # started while an earlier run of it was alive
    runs: int
    repeated: int  # runs beyond the first of their task
    unfinished: int  # runs that were ended from outside


def read(lines: Iterable[str]) -> list[Run]:
    """The runs that a ledger tells of: lines `s ID PID TIME` and `e ID PID TIME`; a torn last line is passed over."""
    starts: dict[tuple[str, int], list[float]] = {}
    ends: dict[tuple[str, int], list[float]] = {}
    for line in lines:
        words = line.split()
        if len(words) != 4 or words[0] not in "se":
            continue
        table = starts if words[0] == "s" else ends
        table.setdefault((words[1], int(words[2])), []).append(float(words[3]))
    return [run for (name, pid), began in starts.items() for run in _paired(name, pid, began, ends)]


def _paired(
    name: str, pid: int, began: list[float], ends: Mapping[tuple[str, int], list[float]]
) -> Iterable[Run]:
    """Starts of one task in one process, each with the first end before the next start."""
    finished = sorted(ends.get((name, pid), []))
    began = sorted(began)
    for start, following in zip(began, [*began[1:], float("inf")], strict=True):
        yield Run(name, pid, start, next((e for e in finished if start <= e <= following), None))


def judge(
    accepted: Collection[str],
    buried: Collection[str],
    runs: Iterable[Run],
    deaths: Mapping[int, float],
) -> Verdict:
    """`deaths`: when a process was ended from outside. A run without an end is over when its process died."""
    by_id: dict[str, list[Run]] = {}
    for run in runs:
        by_id.setdefault(run.id, []).append(run)
    finished = {
        name for name, all_of in by_id.items() if any(run.end is not None for run in all_of)
    }
    return Verdict(
        lost=tuple(sorted(set(accepted) - finished - set(buried))),
        beside=tuple(sorted(name for name, all_of in by_id.items() if _overlap(all_of, deaths))),
        runs=sum(map(len, by_id.values())),
        repeated=sum(len(all_of) - 1 for all_of in by_id.values()),
        unfinished=sum(run.end is None for all_of in by_id.values() for run in all_of),
    )


def _overlap(runs: list[Run], deaths: Mapping[int, float]) -> bool:
    ordered = sorted(runs, key=lambda run: run.start)
    return any(
        later.start < _over(earlier, deaths)
        for at, earlier in enumerate(ordered)
        for later in ordered[at + 1 :]
    )


def _over(run: Run, deaths: Mapping[int, float]) -> float:
    """When a run was over. One that wrote no end, of a process whose death nobody saw, counts as still alive."""
    if run.end is not None:
        return run.end
    return deaths.get(run.pid, float("inf"))
