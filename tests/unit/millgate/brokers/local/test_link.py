"""A client's connection to a local broker: how long it waits for an answer."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.brokers.local import framing
from millgate.brokers.local.link import Link
from millgate.brokers.served import frames
from millgate.errors import BrokerTimeout
from support.clock import FakeClock


class Slow:
    """A socket whose next bytes take so many seconds each time."""

    def __init__(self, data: bytes, step: int, clock: FakeClock) -> None:
        self.data, self.step, self.clock = data, step, clock
        self.pause, self.limit = 0.0, 0.0

    def settimeout(self, seconds: float) -> None:
        self.limit = seconds

    def recv(self, _most: int) -> bytes:
        self.clock.advance(min(self.pause, self.limit))
        if self.pause > self.limit:
            raise TimeoutError
        part, self.data = self.data[: self.step], self.data[self.step :]
        return part


@pytest.mark.parametrize(
    ("pause", "end", "comes"),
    [(0.9, 100.0, True), (1.1, 100.0, False), (0.9, 5.0, False)],
    ids=["bit by bit", "with a gap", "too long in all"],
)
def test_an_answer_may_take_long_while_more_and_more_of_it_comes(
    pause: float, end: float, comes: bool
) -> None:
    clock = FakeClock()
    slow: Any = Slow(framing.frame(b"x" * 96), 10, clock)
    link = Link(slow, clock)
    link._splitter.bound = frames.ANSWER_BOUND
    slow.pause, end = pause, clock.monotonic() + end
    if comes:
        assert link.receive(end, silence=1.0) == b"x" * 96
    else:
        with pytest.raises(BrokerTimeout):
            link.receive(end, silence=1.0)
