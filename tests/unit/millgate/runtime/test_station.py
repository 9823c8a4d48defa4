"""What a child reports at once, and what may wait for other results."""

from __future__ import annotations

import os
from typing import Any, cast

import pytest

from millgate.app import App
from millgate.outcome import Cancelled, Failure, Interrupted, Outcome, Raised, Reason, Returned
from millgate.runtime import printed, wire
from millgate.runtime.link import Link
from millgate.runtime.station import Station
from millgate.runtime.table import Table
from support.clock import FakeClock


class Slips:
    """Stands for the link: notes which way a frame took."""

    foreign = False

    def __init__(self, trouble: Exception | None = None) -> None:
        self.sent: list[tuple[str, Any]] = []
        self._trouble = trouble  # of the first frame

    def _fail(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    def send(self, value: Any) -> None:
        self._fail()
        self.sent.append(("at once", value))

    def send_soon(self, value: Any, now: float) -> None:
        del now
        self._fail()
        self.sent.append(("soon", value))


def report(outcome: Outcome, *, more: bool, trouble: Exception | None = None) -> tuple[str, Any]:
    slips, table = Slips(trouble), Table.create(1)
    station = Station(App(), cast("Link", slips), table, FakeClock())
    station.report(7, outcome, station.clock.monotonic(), more=more)
    table.close()
    [sent] = slips.sent
    return sent


def test_a_plain_success_may_wait_when_more_is_to_be_done() -> None:
    assert report(Returned(b"1"), more=True) == ("soon", ["done", 7, 0.0, ["returned", b"1", []]])
    assert report(Returned(None), more=False)[0] == "at once"


@pytest.mark.parametrize(
    "outcome",
    [
        Raised(Failure("E"), Reason.MEMORY_EXCEEDED),
        Raised(Failure("E")),
        Interrupted(),
        Cancelled(),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_every_other_end_is_told_at_once(outcome: Outcome) -> None:
    assert report(outcome, more=True)[0] == "at once"


def test_the_result_of_a_task_that_printed_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(printed, "take", lambda _run: True)
    assert report(Returned(None), more=True)[0] == "at once"


@pytest.mark.parametrize("more", [True, False])
def test_a_result_for_which_there_is_no_memory_is_told_as_such(more: bool) -> None:
    word, frame = report(Returned(b"1"), more=more, trouble=MemoryError())
    assert word == "at once"
    assert frame[3][0] == "raised"
    assert frame[3][2] == Reason.MEMORY_EXCEEDED


def test_a_job_for_which_there_is_no_memory_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_fields: Any) -> Any:
        raise MemoryError

    table = Table.create(1)
    station = Station(App(), cast("Link", Slips()), table, FakeClock())
    monkeypatch.setattr(wire, "load_job", refuse)
    taken = station.take([7], 1.0)
    table.close()
    assert taken is not None
    seq, outcome = taken
    assert seq == 7
    assert isinstance(outcome, Raised)
    assert outcome.reason is Reason.MEMORY_EXCEEDED


def test_a_child_that_cannot_report_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    with pytest.raises(ValueError, match="not enough"):
        report(Returned(b"1"), more=False, trouble=OSError(9, "Bad file descriptor"))
    assert ended == [1]
