"""The values that travel: Message, Claim and their parts. Frozen, without I/O.

A message has two halves. What a broker decides by (topic, priority, key, times, unique, group) are fields that it
may store as columns; the rest (task, body, options, headers, the rest of a chain) is one immutable `record`
of bytes that no broker looks into.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache

import msgpack

from millgate.errors import NotDecodable
from millgate.frozen import dataclass, quick
from millgate.hints import Any, Final

TOPIC_NAME: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")
DEFAULT_TOPIC: Final = "default"
MAX_KEY: Final = 256
#: Priorities within a topic: 9 runs first.
PRIORITIES: Final = range(10)
DEFAULT_PRIORITY: Final = 5
#: Seconds under which every time that travels is: some stores have no moment beyond.
LONGEST: Final = 1e12
_FORMAT: Final = 1  # first element of every record
_FIELDS: Final = 8  # elements of a record


@dataclass(frozen=True, slots=True)
class Options:
    """What one send or one task sets for itself; None leaves it to the topic. Times in seconds."""

    soft_timeout: float | None = None
    hard_timeout: float | None = None
    attempts: int | None = None
    backoff: Mapping[str, Any] | None = None

    @property
    def empty(self) -> bool:
        """Whether everything is left to the topic."""
        return self is NO_OPTIONS or self == NO_OPTIONS


NO_OPTIONS: Final = Options()


@quick
@dataclass(frozen=True, slots=True)
class Message:
    """One request to run a task.

    Times: `delay` and `expires_in` are seconds from acceptance, `at` and `expires_at` are seconds since 1970; all of
    them are read by the broker's clock. A message that has not started when it expires is buried as Expired.
    """

    id: str
    topic: str
    task: str
    body: bytes
    priority: int = DEFAULT_PRIORITY
    key: str | None = None
    delay: float | None = None
    at: float | None = None
    expires_in: float | None = None
    expires_at: float | None = None
    #: While a message with this text is waiting or running (or for `unique_for` seconds from acceptance, when
    #: given), another publish with it answers the first one's id and stores nothing.
    unique: str | None = None
    unique_for: float | None = None
    #: Seconds to keep the result; None: as the topic says; 0: keep none.
    result_ttl: float | None = None
    #: The group that this message is a member of.
    group: str | None = None
    #: Ids of a finished group's members: their results become the first argument.
    gather: tuple[str, ...] = ()
    #: In a chain: whether the previous step's result becomes the first argument.
    feed: bool = False
    options: Options = NO_OPTIONS
    headers: Mapping[str, str] = field(default_factory=dict)
    #: The steps that follow, in order, unpublished until this one succeeded.
    chain: tuple[Message, ...] = ()

    def record(self) -> bytes:
        """The half that brokers store unread."""
        body = self.body
        if (
            self.options is NO_OPTIONS
            and not self.headers
            and not self.feed
            and not self.gather
            and not self.chain
            and len(body) < _SHORT
        ):
            return b"%b%c%b%b" % (_head(self.task), len(body), body, _NOTHING_MORE)
        return bytes(msgpack.packb(_record(self), use_bin_type=True))


@quick
@dataclass(frozen=True, slots=True)
class Claim:
    """A message that one worker holds until its lease ends.

    `token` is unique to this claim. `attempt` is the number of this start, counted at the claim; of the earlier
    ones `failures` were ended by the task, `losses` by the death of a worker or child, and `interruptions` were
    given back on purpose, charged to nobody. `lease` is in seconds from the moment that the broker answered.
    `age` is how long the message could have been running already, in seconds.
    """

    id: str
    topic: str
    token: str
    record: bytes
    attempt: int = 1
    failures: int = 0
    losses: int = 0
    interruptions: int = 0
    lease: float = 60.0
    age: float = 0.0
    priority: int = DEFAULT_PRIORITY
    key: str | None = None
    result_ttl: float | None = None
    group: str | None = None

    @property
    def ref(self) -> ClaimRef:
        """What settles or extends this claim."""
        return ClaimRef(self.id, self.topic, self.token)

    def message(self) -> Message:
        """The whole message, its record decoded. Raises NotDecodable when something else wrote it."""
        return claimed_message(
            self.id,
            self.topic,
            self.record,
            self.priority,
            self.key,
            self.result_ttl,
            self.group,
        )

    def head(self) -> Head:
        """What a supervisor needs of the record, at a fraction of the cost. Raises NotDecodable."""
        _, task, _, options, _, _, gather, _ = _checked(_unpack(self.record))
        return (
            task,
            None if options is None else _options_of(options),
            () if gather is None else _texts(gather),
        )


#: The task's name, the options if the send set any, and the ids whose results go in first.
Head = tuple[str, Options | None, tuple[str, ...]]


@quick
@dataclass(frozen=True, slots=True)
class ClaimRef:
    """Names one claim: the id alone is not enough, another worker may hold it by now."""

    id: str
    topic: str
    token: str


@dataclass(frozen=True, slots=True)
class Group:
    """Messages whose end is awaited together; when the last one ended, `callback` is published, once.

    The callback's `gather` is set to the members' ids. With `require_all` a member that failed or was cancelled
    buries the callback as MemberFailed instead of publishing it.
    """

    id: str
    members: tuple[str, ...]
    callback: Message
    require_all: bool = True


@quick
@dataclass(frozen=True, slots=True)
class Receipt:
    """The broker's answer to one published message: its id, or the id of the one that it duplicates."""

    id: str
    duplicate: bool = False


def claimed_message(  # noqa: PLR0913, PLR0917 -- the fields of a claim that say something about its message
    id: str,  # noqa: A002 -- as the field
    topic: str,
    record: bytes,
    priority: int,
    key: str | None,
    result_ttl: float | None,
    group: str | None,
) -> Message:
    """As `Claim.message`, of the fields alone: on the way to a child no claim is made of them for that."""
    task, body, options, headers, feed, gather, chain = _parts_of(_unpack(record))
    return Message(  # by position, which is faster: the fields in their order
        id,
        topic,
        task,
        body,
        priority,
        key,
        None,
        None,
        None,
        None,
        None,
        None,
        result_ttl,
        group,
        gather,
        feed,
        options,
        headers,
        chain,
    )


#: Bodies of which msgpack writes the length in one byte.
_SHORT: Final = 256


@lru_cache(maxsize=256)
def _head(task: str) -> bytes:
    """How a record begins that has nothing but a task and a short body: up to the body's length."""
    whole: bytes = msgpack.packb([_FORMAT, task, b"", *[None] * (_FIELDS - 3)], use_bin_type=True)
    return whole[: len(whole) - len(_NOTHING_MORE) - 1]


#: How such a record ends, behind the body: no options, no headers, not fed, no gather, no chain.
_NOTHING_MORE: Final = bytes(msgpack.packb([None, None, False, None, None], use_bin_type=True)[1:])


def _record(message: Message) -> list[Any]:
    options = message.options
    return [
        _FORMAT,
        message.task,
        message.body,
        None
        if options.empty
        else [options.soft_timeout, options.hard_timeout, options.attempts, options.backoff],
        dict(message.headers) or None,
        message.feed,
        list(message.gather) or None,
        [_whole(step) for step in message.chain] or None,
    ]


_WHOLE: Final = (
    "id",
    "topic",
    "priority",
    "key",
    "delay",
    "at",
    "expires_in",
    "expires_at",
    "unique",
    "unique_for",
    "result_ttl",
    "group",
)


def _whole(message: Message) -> list[Any]:
    return [[getattr(message, name) for name in _WHOLE], _record(message)]


def pack(message: Message) -> bytes:
    """Every field of a message as bytes, for frames, journals and dead letters."""
    return bytes(msgpack.packb(_whole(message), use_bin_type=True))


def unpack(data: bytes) -> Message:
    """The message that `pack` wrote. Raises NotDecodable."""
    return _from_whole(_unpack(data))


def with_record(message: Message, record: bytes) -> Message:
    """`message` with the unread half taken from `record`. Raises NotDecodable."""
    return replace(message, **_fields_of(_unpack(record)))


def _unpack(data: bytes) -> Any:
    try:
        return msgpack.unpackb(data, raw=False)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise NotDecodable(f"not what Millgate wrote: {error}") from error


def _from_whole(whole: Any) -> Message:
    try:
        fields, record = whole
        return Message(**dict(zip(_WHOLE, fields, strict=True)), **_fields_of(record))
    except (ValueError, TypeError) as error:
        raise NotDecodable(f"not a Millgate message: {error}") from error


def _checked(record: Any) -> list[Any]:
    if type(record) is not list or len(record) != _FIELDS or record[0] != _FORMAT:
        raise NotDecodable("not the record of a Millgate message, or one of a newer format")
    if type(record[1]) is not str or type(record[2]) is not bytes:
        raise NotDecodable("the record names no task or has no body")
    return record


_PARTS: Final = ("task", "body", "options", "headers", "feed", "gather", "chain")


def _fields_of(record: Any) -> dict[str, Any]:
    return dict(zip(_PARTS, _parts_of(record), strict=True))


def _parts_of(record: Any) -> tuple[Any, ...]:
    """The values of `_PARTS`. Most messages have no options, headers, gather or chain: that is seen at once."""
    _, task, body, options, headers, feed, gather, chain = _checked(record)
    try:
        return (
            task,
            body,
            NO_OPTIONS if options is None else _options_of(options),
            {} if headers is None else _headers_of(headers),
            bool(feed),
            () if gather is None else _texts(gather),
            tuple([_from_whole(step) for step in chain]) if chain else (),
        )
    except (TypeError, RecursionError) as error:  # a chain in a chain in a chain …
        raise NotDecodable(f"not the record of a Millgate message: {error}") from error


def _options_of(values: Any) -> Options:
    if values is None:
        return NO_OPTIONS
    if not isinstance(values, list) or len(values) != len(Options.__slots__):
        raise NotDecodable("the record's options are of another shape")
    *numbers, backoff = values
    if not all(number is None or isinstance(number, int | float) for number in numbers):
        raise NotDecodable("the record's timeouts or attempts are no numbers")
    if backoff is not None and not isinstance(backoff, dict):
        raise NotDecodable("the record's backoff is of another shape")
    return Options(*values)


def _headers_of(values: Any) -> dict[str, str]:
    if values is None:
        return {}
    if isinstance(values, dict) and set(map(type, [*values, *values.values()])) <= {str}:
        return values
    raise NotDecodable("the record's headers are not texts")


def _texts(values: Any) -> tuple[str, ...]:
    if values is None:
        return ()
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return tuple(values)
    raise NotDecodable("the record's ids are not texts")
