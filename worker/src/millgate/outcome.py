"""How a run ended, as a value: seven cases and the failure that some of them carry."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from millgate.frozen import dataclass, quick
from millgate.message import Message


class Reason(StrEnum):
    """Why a message was buried; stable words for the dead letters, metrics and status."""

    FAILED = "Failed"  # the task raised on its last attempt
    LOST = "Lost"  # its workers or children died too often
    INTERRUPTED = "Interrupted"  # its runs were cut short by shutdowns too often
    MEMORY_EXCEEDED = "MemoryExceeded"  # it did not fit under the hard ceiling
    TIMED_OUT = "TimedOut"  # it ran past its hard timeout
    REJECTED = "Rejected"  # the task said that another attempt is pointless
    EXPIRED = "Expired"  # it did not start in time
    UNDECODABLE = "Undecodable"  # nobody can read it
    UNKNOWN_TASK = "UnknownTask"  # no worker knew its task for too long
    BAD_ARGUMENTS = "BadArguments"  # the task's signature cannot take the arguments
    RESULT_REFUSED = "ResultRefused"  # the task's result cannot be encoded, or is too large
    MEMBER_FAILED = "MemberFailed"  # a callback whose group has a failed member


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of an error after it crossed processes: text only, each part bounded by its writer."""

    error: str  # qualified class name
    message: str = ""
    traceback: str = ""  # the tail


@quick
@dataclass(frozen=True, slots=True)
class Returned:
    """The task returned; `result` is encoded, `publish` are the messages that follow in the same step."""

    result: bytes | None
    publish: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    """The task raised; charged as a failure."""

    failure: Failure
    reason: Reason = Reason.FAILED


@dataclass(frozen=True, slots=True)
class RetryRequested:
    """The task asked to run again after `delay` seconds (None: as the backoff says); charged as a failure unless
    `charge` is false."""

    delay: float | None
    failure: Failure
    charge: bool = True


@dataclass(frozen=True, slots=True)
class Rejected:
    """Another attempt is pointless: bury now, with this reason."""

    failure: Failure
    reason: Reason = Reason.REJECTED


@dataclass(frozen=True, slots=True)
class Died:
    """The child died or was killed during the run; charged as a loss (memory and time kills as failures)."""

    reason: Reason
    failure: Failure


@dataclass(frozen=True, slots=True)
class Interrupted:
    """We gave it back on purpose (drain, recall, unknown task): charged to nobody."""

    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It was cancelled while it ran, and stopped."""


Outcome = Returned | Raised | RetryRequested | Rejected | Died | Interrupted | Cancelled
