"""Work made of several tasks: signatures, chains, groups and chords, as values; every id is known before a send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace

from millgate import codec
from millgate.errors import InvalidInput
from millgate.frozen import dataclass
from millgate.hints import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from millgate.message import Group, Message
from millgate.registered import register

if TYPE_CHECKING:
    from millgate.brokers.base import TaskState
    from millgate.result import Result

T = TypeVar("T")
#: Header of a callback that takes the failures of its members too.
TAKES_FAILURES: Final = "members"
_WANTED: Final = "pass"


class Sender(Protocol):
    """What workflows need of an app."""

    def new_id(self) -> str:
        """An id for a message or group."""

    def submit(self, plan: Plan, connection: Any = None) -> list[Result]:
        """Publish a plan, whole or not at all."""


class Maker(Protocol):
    """What workflows need of a task."""

    @property
    def sender(self) -> Sender:
        """The app that it belongs to."""

    def message(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        fed: bool = False,
        alone: bool = True,
    ) -> Message:
        """The call as a message. `fed`: a first argument comes later. Not `alone`: others wait for its id."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one send stores, and the ids that its handles stand for: for each the chain's steps, the last one last."""

    messages: tuple[Message, ...]
    handles: tuple[tuple[str, ...], ...]
    group: Group | None = None

    def prepared(self, prepare: Callable[[Message], Message]) -> Plan:
        """The plan with each message as `prepare` answers it; what names a message follows it to another id."""
        messages = tuple(map(prepare, self.messages))
        if self.group is None:
            return Plan(messages, tuple(map(_ids, messages)))
        real = {old.id: new.id for old, new in zip(self.messages, messages, strict=True)}
        members = tuple(real[member] for member in self.group.members)
        callback = prepare(replace(self.group.callback, gather=members))
        group = replace(self.group, members=members, callback=callback)
        return Plan(messages, (_ids(callback),), group)


@dataclass(frozen=True, slots=True)
class Signature:
    """A call that was written down, not made. `feed`: the previous step's result becomes its first argument."""

    task: Maker
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    feed: bool = True

    def message(self, *, fed: bool = False, alone: bool = True) -> Message:
        """It as a message; `fed` only if there is something to feed it with."""
        fed = fed and self.feed
        made = self.task.message(self.args, dict(self.kwargs), fed=fed, alone=alone)
        return replace(made, feed=fed)

    def send(self, *, connection: Any = None) -> Result:
        """Send it alone."""
        made = self.message()
        return self.task.sender.submit(Plan((made,), ((made.id,),)), connection)[0]

    async def send_async(self) -> Result:
        """As `send`, in a thread, so that the event loop stays free."""
        return await _in_a_thread(self.send)

    def __or__(self, after: Signature | Chain) -> Chain:
        return chain(self, after)


@dataclass(frozen=True, slots=True)
class Chain:
    """Steps that run one after the other; each is queued in the same step that settles the one before."""

    steps: tuple[Signature, ...]

    def message(self, *, fed: bool = False) -> Message:
        """The first step, which carries the others."""
        first, *rest = self.steps
        following = tuple(step.message(fed=True, alone=False) for step in rest)
        return replace(first.message(fed=fed, alone=not rest and not fed), chain=following)

    def send(self, *, connection: Any = None) -> Result:
        """Queue the first step; the handle is that of the last."""
        made = self.message()
        plan = Plan((made,), (_ids(made),))
        return self.steps[0].task.sender.submit(plan, connection)[0]

    async def send_async(self) -> Result:
        """As `send`, in a thread, so that the event loop stays free."""
        return await _in_a_thread(self.send)

    def __or__(self, after: Signature | Chain) -> Chain:
        return chain(self, after)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Members that run at the same time, as far as workers allow."""

    members: tuple[Signature | Chain, ...]

    def send(self, *, connection: Any = None) -> list[Result]:
        """Send all of them in one step; a handle for each, in order."""
        if not self.members:
            return []
        made = [member.message() for member in self.members]
        plan = Plan(tuple(made), tuple(_ids(message) for message in made))
        return _sender(self.members[0]).submit(plan, connection)

    async def send_async(self) -> list[Result]:
        """As `send`, in a thread, so that the event loop stays free."""
        return await _in_a_thread(self.send)


@dataclass(frozen=True, slots=True)
class Chord:
    """Members, and a callback that runs once when all of them have ended, given the list of their results."""

    members: tuple[Signature, ...]
    callback: Signature | Chain
    take_failures: bool = False

    def send(self, *, connection: Any = None) -> Result:
        """Send all of it in one step; the handle is that of the callback, or of the last step after it."""
        sender, callback = _sender(self.callback), self.callback.message(fed=True)
        if not callback.feed:
            raise InvalidInput(
                "the callback of a chord takes the results: write it with .s(…), not .si(…)"
            )
        callback = replace(callback, feed=False)
        if self.take_failures:
            callback = replace(callback, headers={**callback.headers, TAKES_FAILURES: _WANTED})
        if not self.members:  # nothing to wait for
            callback = replace(callback, body=codec.splice(callback.body, b"[]"))
            return sender.submit(Plan((callback,), (_ids(callback),)), connection)[0]
        group = sender.new_id()
        made = tuple(replace(m.message(alone=False), group=group) for m in self.members)
        for message in made:
            if message.result_ttl == 0:
                raise InvalidInput(
                    f"{message.task} keeps no result (result_ttl=0), a chord needs it"
                )
        ids = tuple(message.id for message in made)
        plan = Plan(
            made,
            (_ids(callback),),
            Group(group, ids, replace(callback, gather=ids), require_all=not self.take_failures),
        )
        return sender.submit(plan, connection)[0]

    async def send_async(self) -> Result:
        """As `send`, in a thread, so that the event loop stays free."""
        return await _in_a_thread(self.send)


@register
@dataclass(frozen=True, slots=True)
class MemberFailed:
    """In place of a result: a member of a chord that failed, was cancelled, or whose result is gone."""

    id: str
    state: str  # failed, cancelled or unknown
    error: str = ""  # the qualified class name
    message: str = ""


def chain(*steps: Signature | Chain) -> Chain:
    """Run `steps` one after the other. A step written with `.s(…)` gets the result before it as its first argument,
    one written with `.si(…)` only what it was given. When a step fails for good, the rest is never queued."""
    flat: list[Signature] = []
    for step in steps:
        if isinstance(step, Chain):
            flat.extend(step.steps)
        elif isinstance(step, Signature):
            flat.append(step)
        else:
            raise InvalidInput(
                f"a chain has steps written with .s(…) or .si(…), not a {type(step).__name__};"
                " to wait for a group use chord(members, chain(…))"
            )
    if not flat:
        raise InvalidInput("a chain has at least one step")
    return Chain(tuple(flat))


def group(*members: Any) -> Parallel:
    """Run `members` (signatures, chains, groups, or one iterable of these) at the same time."""
    return Parallel(tuple(_flat(members)))


def chord(members: Any, callback: Signature | Chain, *, failed: str = "bury") -> Chord:
    """Run `members` at the same time, then `callback` once with the list of their results, in order.

    When a member ends badly: with `failed="bury"` the callback goes to the dead letters as MemberFailed, and who
    waits for it is told; with `failed="pass"` it runs, and finds a MemberFailed in that member's place.
    """
    if failed not in ("bury", "pass"):
        raise InvalidInput(f"failed={failed!r}: use 'bury' or 'pass'")
    flat = _flat(members.members if isinstance(members, Parallel) else [members])
    for member in flat:
        if not isinstance(member, Signature):
            raise InvalidInput(
                "a member of a chord is one task; a chain cannot be waited for as a member"
            )
    if not isinstance(callback, Signature | Chain):
        raise InvalidInput(
            f"a callback is written with .s(…), it is not a {type(callback).__name__}"
        )
    return Chord(tuple(flat), callback, failed == "pass")


def following(message: Message, result: bytes) -> tuple[Message, ...]:
    """What is published when `message` succeeded with the encoded `result`: the next step, the rest on board."""
    if not message.chain:
        return ()
    step, *rest = message.chain
    body = codec.splice(step.body, result) if step.feed else step.body
    return (replace(step, body=body, chain=tuple(rest)),)


def gathered(message: Message, states: Sequence[TaskState]) -> bytes | TaskState:
    """The members' results as one encoded list, or the first member that stands in the way."""
    parts: list[bytes] = []
    for state in states:
        if state.state == "succeeded" and state.result is not None:
            parts.append(state.result)
        elif message.headers.get(TAKES_FAILURES) == _WANTED:
            parts.append(codec.encode(_failed(state)))
        else:
            return state
    return b"[" + b",".join(parts) + b"]"


def _failed(state: TaskState) -> MemberFailed:
    if state.failure is not None:
        return MemberFailed(state.id, str(state.state), state.failure.error, state.failure.message)
    if state.state == "cancelled":
        return MemberFailed(
            state.id, str(state.state), "millgate.errors.TaskCancelled", "cancelled"
        )
    gone = "its result is not kept any more"
    return MemberFailed(state.id, "unknown", "millgate.errors.ResultMissing", gone)


def _flat(members: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for member in members:
        if isinstance(member, Signature | Chain):
            flat.append(member)
        elif isinstance(member, Parallel):
            flat.extend(member.members)
        elif isinstance(member, Chord):
            raise InvalidInput(
                "a chord cannot be a member; send it, or continue it with chord(…, chain(…))"
            )
        elif isinstance(member, Iterable) and not isinstance(member, str | bytes):
            flat.extend(_flat(member))
        else:
            raise InvalidInput(
                f"a member is written with .s(…), it is not a {type(member).__name__}"
            )
    return flat


async def _in_a_thread(send: Callable[[], T]) -> T:
    import asyncio

    return await asyncio.to_thread(send)


def _ids(message: Message) -> tuple[str, ...]:
    return (message.id, *(step.id for step in message.chain))


def _sender(part: Signature | Chain) -> Sender:
    return (part.steps[0] if isinstance(part, Chain) else part).task.sender
