"""Calls in parts: put together whatever comes between, and bounded whoever sends them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from millgate.brokers.rabbitmq import lines
from millgate.brokers.rabbitmq.lines import PROTOCOL, REPLY_TO, Joiner, Line, Lines, split
from millgate.brokers.rabbitmq.pieces import LARGEST
from millgate.brokers.served.frames import FrameTooLarge
from millgate.errors import NotDecodable

PAYLOADS = [b"", b"x", b"x" * LARGEST, b"x" * (LARGEST + 1), b"y" * (3 * LARGEST)]


@dataclass
class Properties:
    """Of a message, as the driver gives them."""

    type: str = PROTOCOL
    app_id: object = "client"


def line(number: object = "1", reply_to: object = REPLY_TO + ".x") -> Line:
    """Where a call came from."""
    return Line(reply_to, number)  # type: ignore[arg-type]


@pytest.mark.parametrize("payload", PAYLOADS, ids=len)
def test_a_payload_comes_out_of_its_parts(payload: bytes) -> None:
    joiner = Joiner(10 * LARGEST)
    *first, last = split(payload)
    assert [joiner.feed(part) for part in first] == [None] * len(first)
    assert joiner.feed(last) == payload
    assert joiner.size == 0


def test_the_end_of_a_call_without_its_beginning_is_no_call() -> None:
    joiner = Joiner(10 * LARGEST)
    for part in list(split(b"y" * (3 * LARGEST)))[1:]:
        with pytest.raises(NotDecodable, match="beginning"):
            joiner.feed(part)
    assert joiner.feed(b"\x00whole") == b"whole"


def test_what_came_of_a_call_is_forgotten_when_another_begins() -> None:
    joiner = Joiner(10 * LARGEST)
    assert joiner.feed(next(split(b"y" * (2 * LARGEST)))) is None
    assert joiner.feed(b"\x00whole") == b"whole"


def test_an_empty_body_lifts_no_bound() -> None:
    joiner = Joiner(10)
    joiner.feed(b"\x01")
    for _ in range(50):
        with pytest.raises(NotDecodable):
            joiner.feed(b"")
    with pytest.raises(FrameTooLarge):
        joiner.feed(b"\x01" + bytes(11))
    assert joiner.size == 0


@pytest.mark.parametrize(
    ("client", "where"),
    [(b"\xff", line()), ("client", line(reply_to=b"\xff")), ("client", line(number=b"\xff"))],
)
def test_a_name_that_is_no_text_is_no_callers(client: object, where: Line) -> None:
    with pytest.raises(NotDecodable):
        Lines("q").take(0.0, where, Properties(app_id=client), b"\x00call")


def test_unfinished_calls_of_all_lines_together_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "_UNFINISHED", 250)
    every = Lines("q")
    for number in range(9):
        every.take(0.0, line(str(number)), Properties(), b"\x01" + bytes(100))
    assert sum(joiner.size for joiner in every._joiners.values()) == 200
    call = every.take(0.0, line("8"), Properties(), b"\x02end")
    assert call is not None
    assert call[1] == bytes(100) + b"end"
