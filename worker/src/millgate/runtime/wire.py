"""Frames between supervisor and child: a length, then msgpack. Bounded: a length over the bound is refused before
anything is allocated for it. Pure, but for the reader's receive call.

Down: ["hello", …], ["run", [job, …]], ["answer", request, …], ["end"].
Up: ["ready", …], ["done", …], ["said", …], ["left", seq], ["ask", …].
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgpack

from millgate.errors import NotDecodable
from millgate.hints import Any, Final
from millgate.message import Claim, Message, claimed_message, pack, unpack
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

#: Most bytes of one frame; a topic's largest payload is 16 MiB, a result may hold as much, and a frame has several.
MAX_FRAME: Final = 64 * 2**20
#: Bytes read at once, in a buffer that each child keeps; longer frames get a buffer of their own size.
_CHUNK: Final = 64 * 1024
_LENGTH: Final = struct.Struct("<I")
_HEADER: Final = _LENGTH.size
#: On a child's output, around the number of the run that prints next; 0: nobody says whose it is. A run that is over
#: is named behind its number: a blank and a JSON array of task, id, topic and attempt, in less than so many bytes.
MARK_BEGIN: Final = b"\x1emillgate:"
MARK_END: Final = b"\x1e"
MARK_NAME: Final = 1024
#: The two kinds of a run's end: nothing was printed by it, or something, which is to be read before.
DONE: Final = "done"
SAID: Final = "said"
ENDS: Final = (DONE, SAID)
#: Bytes of records from which on no more jobs are put into a frame.
_FULL: Final = MAX_FRAME // 4
#: Where in a job's fields its record is, and the states that go in first; where in a state the result is.
_RECORD: Final = 3
_GATHERED: Final = 12
_RESULT: Final = 3


class FrameTooLarge(NotDecodable):
    """A frame is larger than the bound; nothing of it was read or sent."""


def encode(value: Any) -> bytes:
    """One frame. Raises FrameTooLarge, and what msgpack raises for values that are not plain."""
    return _frame(msgpack.packb(value, use_bin_type=True))


class Encoder:
    """As `encode`, with a buffer that is kept from frame to frame; for one thread at a time."""

    __slots__ = ("_pack",)

    def __init__(self) -> None:
        self._pack = msgpack.Packer(use_bin_type=True).pack

    def encode(self, value: Any) -> bytes:
        """One frame. Raises as `encode`."""
        body: bytes = self._pack(value)
        if len(body) <= _CHUNK:
            return _LENGTH.pack(len(body)) + body
        self._pack = msgpack.Packer(use_bin_type=True).pack  # nobody is to hold so much for long
        return _frame(body)


def _frame(body: bytes) -> bytes:
    if len(body) > MAX_FRAME:
        raise FrameTooLarge(f"a frame of {len(body)} bytes is over the bound of {MAX_FRAME}")
    return _LENGTH.pack(len(body)) + body


def decode(body: bytes | bytearray | memoryview) -> Any:
    """The value of one frame's body. Raises NotDecodable."""
    try:
        return msgpack.unpackb(body, raw=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise NotDecodable(f"not a frame: {error}") from error


class Reader:
    """Cuts a stream into frames. `receive` fills a buffer like `socket.recv_into`; it answers 0 at the end."""

    def __init__(self, receive: Callable[[memoryview], int], bound: int = MAX_FRAME) -> None:
        self._receive = receive
        self._bound = bound
        self._chunk = bytearray(_CHUNK)
        self._rest = b""
        self._long: bytearray | None = None  # a frame that did not fit into what was read
        self._filled = 0

    def read(self) -> list[Any] | None:
        """The frames that one receive completes, maybe none; None: the other end has closed.

        Raises what `receive` raises (BlockingIOError included), FrameTooLarge and NotDecodable.
        """
        if self._long is not None:
            return self._fill(self._long)
        count = self._receive(memoryview(self._chunk))
        if count == 0:
            return None
        return self._cut(self._rest + self._chunk[:count])

    def _fill(self, long: bytearray) -> list[Any] | None:
        count = self._receive(memoryview(long)[self._filled :])
        if count == 0:
            return None
        self._filled += count
        if self._filled < len(long):
            return []
        self._long = None
        return [decode(long)]

    def _cut(self, data: bytes) -> list[Any]:
        frames: list[Any] = []
        start, end = 0, len(data)
        read_length = _LENGTH.unpack_from
        while end - start >= _HEADER:
            (length,) = read_length(data, start)
            if length > self._bound:
                raise FrameTooLarge(f"a frame of {length} bytes is over the bound of {self._bound}")
            if end - start - _HEADER < length:
                if length > _CHUNK:
                    self._begin_long(data[start + _HEADER :], length)
                    start = end
                break
            start += _HEADER
            frames.append(decode(data[start : start + length]))
            start += length
        self._rest = data[start:]
        return frames

    def _begin_long(self, beginning: bytes, length: int) -> None:
        self._long = bytearray(length)
        self._long[: len(beginning)] = beginning
        self._filled = len(beginning)


def frames_of(data: bytes) -> list[Any]:
    """The whole frames at the beginning of what was copied from a child's page. Raises NotDecodable."""
    frames, start = [], 0
    while len(data) - start >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data, start)
        start += _LENGTH.size
        if length > len(data) - start:
            break
        frames.append(decode(data[start : start + length]))
        start += length
    return frames


# --- jobs ----------------------------------------------------------------------------------------


def job(
    seq: int, claim: Claim, gathered: list[Any] | None = None, payload_max: int | None = None
) -> list[Any]:
    """One claim on its way to a child; its token stays here. `payload_max` bounds the next step of its chain."""
    return [
        seq,
        claim.id,
        claim.topic,
        claim.record,
        claim.attempt,
        claim.failures,
        claim.losses,
        claim.interruptions,
        claim.priority,
        claim.key,
        claim.result_ttl,
        claim.group,
        gathered,
        payload_max,
    ]


def load_job(fields: list[Any]) -> tuple[int, Message, list[int], list[Any] | None, int | None]:
    """What `job` wrote: number, message, [attempt, failures, losses, interruptions], states that go in first, bound.

    Raises NotDecodable.
    """
    try:
        seq, id_, topic, record, a, f, lo, i, priority, key, ttl, group, gathered, most = fields
    except ValueError as error:
        raise NotDecodable(f"not a job: {error}") from error
    message = claimed_message(id_, topic, record, priority, key, ttl, group)
    return seq, message, [a, f, lo, i], gathered, most


def run_frames(jobs: list[list[Any]]) -> bytes:
    """Jobs for one child: one frame, or several if they are large. Raises FrameTooLarge for one that is by itself."""
    frames: list[bytes] = []
    some: list[list[Any]] = []
    size = 0
    for fields in jobs:
        own = len(fields[_RECORD])
        if fields[_GATHERED]:
            own += sum(len(state[_RESULT] or b"") for state in fields[_GATHERED])
        if some and size + own > _FULL:
            frames.append(encode(["run", some]))
            some, size = [], 0
        some.append(fields)
        size += own
    frames.append(encode(["run", some]))
    return b"".join(frames)


def answer_frame(request: int, ok: bool, value: Any) -> bytes:
    """The answer to a task's question; a value that fits into no frame is an error to the task."""
    try:
        return encode(["answer", request, ok, value])
    except FrameTooLarge as error:
        told = ["PayloadTooLarge", f"the answer: {error}; ask for less at once"]
        return encode(["answer", request, False, told])


#: A success without result and next step.
_NOTHING: Final = Returned(None)
_PLAIN: Final[list[Any]] = ["returned", None, []]

# --- outcomes ------------------------------------------------------------------------------------


def dump_outcome(outcome: Outcome) -> list[Any]:
    """Plain values for one outcome."""
    match outcome:
        case Returned():
            following = [pack(message) for message in outcome.publish] if outcome.publish else []
            return ["returned", outcome.result, following]
        case Raised(failure, reason):
            return ["raised", _dump_failure(failure), str(reason)]
        case RetryRequested(delay, failure, charge):
            return ["retry", delay, _dump_failure(failure), charge]
        case Rejected(failure, reason):
            return ["rejected", _dump_failure(failure), str(reason)]
        case Died(reason, failure):
            return ["died", str(reason), _dump_failure(failure)]
        case Interrupted(delay):
            return ["interrupted", delay]
        case Cancelled():
            return ["cancelled"]


def load_outcome(fields: list[Any]) -> Outcome:  # noqa: C901, PLR0911 -- one case a line is the point
    """The outcome that `dump_outcome` wrote. Raises NotDecodable."""
    if fields == _PLAIN:  # the usual one, seen at once
        return _NOTHING
    try:
        match fields:
            case ["returned", result, []]:
                return Returned(result)
            case ["returned", result, publish]:
                return Returned(result, tuple(unpack(message) for message in publish))
            case ["raised", failure, reason]:
                return Raised(Failure(*failure), Reason(reason))
            case ["retry", delay, failure, charge]:
                return RetryRequested(delay, Failure(*failure), charge)
            case ["rejected", failure, reason]:
                return Rejected(Failure(*failure), Reason(reason))
            case ["died", reason, failure]:
                return Died(Reason(reason), Failure(*failure))
            case ["interrupted", delay]:
                return Interrupted(delay)
            case ["cancelled"]:
                return Cancelled()
    except (TypeError, ValueError) as error:
        raise NotDecodable(f"not an outcome: {error}") from error
    raise NotDecodable("not an outcome")


def _dump_failure(failure: Failure) -> list[str]:
    return [failure.error, failure.message, failure.traceback]
