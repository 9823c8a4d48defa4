"""What no broker may store, whatever it is: checked before anything is written. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter

from millgate.errors import InvalidInput, InvalidMessage
from millgate.hints import Final
from millgate.ids import TASK_ID
from millgate.message import LONGEST, MAX_KEY, PRIORITIES, TOPIC_NAME, Group, Message

#: More rows than anybody can be answered.
MOST_ROWS: Final = 2**31 - 1
#: Bytes of the name of a lock, a worker or a schedule.
MAX_NAME: Final = 1024
_NO_TOPIC: Final = (
    "topic {!r}: use 1 to 128 letters, digits, '.', '_', ':' or '-', a letter or digit first"
)
_TIME_NAMES: Final = ("delay", "at", "expires_in", "expires_at", "unique_for", "result_ttl")
_TIMES: Final = attrgetter(*_TIME_NAMES)
_NO_TIMES: Final = (None,) * 6


def check(message: Message) -> None:
    """Raise InvalidMessage for what no broker may store. Brokers call it before the first write."""
    if not TASK_ID.match(message.id):
        raise InvalidMessage(
            f"task id {message.id!r}: use 1 to 128 letters, digits, '.', '_', ':', '/' or '-', a letter or digit first"
        )
    if not _is_topic(message.topic):
        raise InvalidMessage(_NO_TOPIC.format(message.topic))
    if message.priority not in PRIORITIES:
        raise InvalidMessage(f"priority {message.priority}: use 0 to 9; 9 runs first")
    if message.key is not None or message.unique is not None:
        _check_texts(message)
    times = _TIMES(message)
    if times != _NO_TIMES:
        _check_times(message, times)


@lru_cache(maxsize=1024)
def _is_topic(name: str) -> bool:
    return TOPIC_NAME.match(name) is not None


def bounded(limit: int) -> int:
    """How many rows are asked for at most: a number that every server can count to."""
    return min(max(0, limit), MOST_ROWS)


def lasting(seconds: float) -> float:
    """What is stored of a time that somebody asked for: not below 0, and no more than every store can add to now."""
    return min(max(0.0, seconds), LONGEST)  # NaN becomes 0


def check_ttl(seconds: float) -> None:
    """Raise InvalidInput for a time that no fence or lock can last."""
    if not -LONGEST < seconds < LONGEST:  # also refuses NaN
        raise InvalidInput(f"a time of {seconds!r} seconds: give finite seconds")


def check_texts(*texts: str | None) -> None:
    """Raise InvalidInput for names and ids that not every store can hold."""
    for text in texts:
        if text is not None and _unstorable(text):
            raise InvalidInput(
                f"{text!r}: NUL and lone surrogates cannot be stored; leave them out"
            )


def check_name(what: str, name: str) -> None:
    """Raise InvalidInput for what no lock, worker or schedule can be called."""
    check_texts(name)
    size = len(name.encode())
    if size > MAX_NAME:
        raise InvalidInput(f"{what} has {size} bytes; use at most {MAX_NAME}")


def check_topic(name: str) -> None:
    """Raise InvalidInput for what no topic can be called."""
    if not _is_topic(name):
        raise InvalidInput(_NO_TOPIC.format(name))


def check_whole(message: Message) -> None:
    """Check a message and the steps that follow it. Raises InvalidMessage."""
    check(message)
    for step in message.chain:
        check(step)


def check_group(group: Group, messages: Sequence[Message]) -> None:
    """Raise InvalidMessage when a member is neither a message of this call nor a step of one's chain."""
    check_whole(group.callback)
    known = {step.id for message in messages for step in (message, *message.chain)}
    for member in group.members:
        if member not in known:
            raise InvalidMessage(
                f"group {group.id!r}: member {member!r} is not among the messages of this call; publish them together"
            )


def _check_texts(message: Message) -> None:
    for name in ("key", "unique"):
        value = getattr(message, name)
        if value is not None and not 0 < len(value.encode("utf-8", "surrogatepass")) <= MAX_KEY:
            raise InvalidMessage(f"{name} must have 1 to {MAX_KEY} bytes")
        if value is not None and _unstorable(value):
            raise InvalidMessage(
                f"{name} {value!r}: NUL and lone surrogates cannot be stored; leave them out"
            )


def _check_times(message: Message, times: Sequence[float | None]) -> None:
    if message.delay is not None and message.at is not None:
        raise InvalidMessage("delay and at exclude each other; set one")
    for place, value in enumerate(times):
        if value is not None and not -LONGEST < value < LONGEST:  # also refuses NaN and infinities
            raise InvalidMessage(f"{_TIME_NAMES[place]} is {value!r}; give finite seconds")


def _unstorable(text: str) -> bool:
    if "\x00" in text:
        return True
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
