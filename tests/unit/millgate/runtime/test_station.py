"""What a child reports at once, and what may wait for other results."""

from __future__ import annotations

from typing import Any, cast

import pytest

from millgate.app import App
from millgate.outcome import Cancelled, Failure, Interrupted, Outcome, Raised, Reason, Returned
from millgate.runtime import printed
from millgate.runtime.link import Link
from millgate.runtime.station import Station
from millgate.runtime.table import Table
from support.clock import FakeClock


class Slips:
    """Stands for the link: notes which way a frame took."""

    foreign = False

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def send(self, value: Any) -> None:
        self.sent.append(("at once", value))

    def send_soon(self, value: Any, now: float) -> None:
        del now
        self.sent.append(("soon", value))


def report(outcome: Outcome, *, more: bool) -> tuple[str, Any]:
    slips, table = Slips(), Table.create(1)
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
