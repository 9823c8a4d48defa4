"""Frames: cut anywhere, bounded, and exactly what was sent."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from millgate.errors import NotDecodable
from millgate.message import Claim, Message
from millgate.outcome import (
    Cancelled,
    Died,
    Failure,
    Interrupted,
    Outcome,
    Raised,
    Reason,
    Rejected,
    RetryRequested,
    Returned,
)
from millgate.runtime import wire

A_FAILURE = Failure("builtins.ValueError", "no good", "Traceback …")


class Pieces:
    """A stream that comes in pieces of one size."""

    def __init__(self, data: bytes, size: int) -> None:
        self.rest, self.size = data, size
        self.largest = 0

    def receive(self, view: memoryview) -> int:
        part, self.rest = (
            self.rest[: min(self.size, len(view))],
            self.rest[min(self.size, len(view)) :],
        )
        self.largest = max(self.largest, len(view))
        view[: len(part)] = part
        return len(part)


def frames(reader: wire.Reader) -> Iterator[object]:
    while (found := reader.read()) is not None:
        yield from found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000, 10**6])
def test_frames_arrive_whole_however_the_stream_is_cut(size: int) -> None:
    values = [["run", [1, "a", b"\x00"]], [], ["x" * 500], {"a": None}]
    pieces = Pieces(b"".join(map(wire.encode, values)), size)
    assert list(frames(wire.Reader(pieces.receive))) == values


@pytest.mark.parametrize("size", [1000, 65536, 10**9])
def test_a_long_frame_is_read_into_a_buffer_of_its_size_between_short_ones(size: int) -> None:
    values = [["short"], ["l" * 3_000_000], ["after"]]
    pieces = Pieces(b"".join(map(wire.encode, values)), size)
    assert list(frames(wire.Reader(pieces.receive))) == values


def test_a_length_over_the_bound_is_refused_before_anything_is_allocated() -> None:
    pieces = Pieces(struct.pack("<I", 2**31) + b"x" * 100, 10**6)
    reader = wire.Reader(pieces.receive)
    with pytest.raises(wire.FrameTooLarge, match="over the bound"):
        reader.read()
    assert pieces.largest < 2**20


def test_a_frame_over_the_bound_is_not_sent_either() -> None:
    with pytest.raises(wire.FrameTooLarge):
        wire.encode(b"x" * (wire.MAX_FRAME + 1))


def test_what_is_no_frame_is_refused_with_one_error() -> None:
    with pytest.raises(NotDecodable):
        wire.Reader(Pieces(struct.pack("<I", 3) + b"\xc1\xc1\xc1", 100).receive).read()


def test_a_job_crosses_whole_but_for_its_token() -> None:
    message = Message(
        "m1", "video", "cut", b"[[1],{}]", priority=7, key="k", group="g", result_ttl=5.0
    )
    claim = Claim(
        "m1",
        "video",
        "secret token",
        message.record(),
        attempt=3,
        failures=1,
        losses=1,
        interruptions=2,
        priority=7,
        key="k",
        result_ttl=5.0,
        group="g",
    )
    fields = wire.decode(wire.encode(wire.job(9, claim, [["state"]], 1000))[4:])
    assert b"secret token" not in wire.encode(fields)
    assert wire.load_job(fields) == (9, message, [3, 1, 1, 2], [["state"]], 1000)
    with pytest.raises(NotDecodable):
        wire.load_job(fields[:-2])


OUTCOMES: list[Outcome] = [
    Returned(b"1"),
    Returned(None, (Message("n", "t", "next", b"[[],{}]"),)),
    Raised(A_FAILURE),
    Raised(A_FAILURE, Reason.MEMORY_EXCEEDED),
    RetryRequested(1.5, A_FAILURE, charge=False),
    RetryRequested(None, A_FAILURE, charge=False),
    Rejected(A_FAILURE, Reason.BAD_ARGUMENTS),
    Died(Reason.LOST, A_FAILURE),
    Interrupted(2.0),
    Cancelled(),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_outcomes_cross_unchanged(outcome: Outcome) -> None:
    assert wire.load_outcome(wire.decode(wire.encode(wire.dump_outcome(outcome))[4:])) == outcome


@pytest.mark.parametrize("fields", [[], ["returned"], ["raised", ["a"], "NoReason"], ["other", 1]])
def test_what_is_no_outcome_is_refused(fields: list[object]) -> None:
    with pytest.raises(NotDecodable):
        wire.load_outcome(fields)


def a_job(number: int, size: int, results: tuple[int, ...] = ()) -> list[object]:
    states = [["m", "succeeded", "t", b"r" * result, None, None, None, 1, ""] for result in results]
    return wire.job(number, Claim("a", "t", "token", b"b" * size), states or None)


@pytest.mark.parametrize(
    "jobs",
    [
        [a_job(number, 16 * 2**20) for number in range(5)],
        [a_job(number, 2**20) for number in range(64)],
        [a_job(1, 10), a_job(2, 10, (16 * 2**20, 16 * 2**20)), a_job(3, 10, (16 * 2**20,) * 2)],
    ],
)
def test_large_jobs_are_spread_over_frames(jobs: list[list[object]]) -> None:
    found = wire.frames_of(wire.run_frames(jobs))
    assert [job for _, some in found for job in some] == jobs
    assert len(found) > 1


def test_small_jobs_share_one_frame() -> None:
    jobs = [a_job(number, 100) for number in range(64)]
    assert wire.run_frames(jobs) == wire.encode(["run", jobs])


def test_an_answer_that_is_too_large_is_an_error_to_who_asked() -> None:
    results = [b"r" * 16 * 2**20] * 5
    [[word, request, ok, (kind, text)]] = wire.frames_of(wire.answer_frame(7, True, results))
    assert (word, request, ok, kind) == ("answer", 7, False, "PayloadTooLarge")
    assert "ask for less" in text
