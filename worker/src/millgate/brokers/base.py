"""The broker contract: verbs, values and promises that memory, local, postgres, redis and rabbitmq all keep.

Promises that hold for every verb:

- **Atomic.** A verb takes effect whole or not at all, in one step that others see whole.
- **Safe to repeat.** A driver repeats a call whose reply was lost, within the call's deadline; the repeat changes
  nothing more than the first one did. What a repeat may answer differently is said at the verb.
- **Bounded.** Every call ends within its deadline (10 s unless opened otherwise) with an answer or BrokerUnavailable.
- **The broker's clock decides** what is due, expired, rate-limited or lapsed. Callers' clocks never do.
- **A stale token changes nothing.** Whoever lost a claim can neither settle, extend, nor report progress for it.
- **Batches in, batches out.** Order in a batch is kept.
- Errors are those of `millgate.errors`: InvalidInput and its kinds (nothing stored), QueueFull (nothing stored),
  BrokerUnavailable (unknown whether it took effect; repeating is safe), BrokerRefused (somebody must change something).
- Objects are safe to use from several threads at once; a renewal never waits behind a claim.

`docs/contract.md` says the same at more length, verb by verb.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable

from millgate.fleet import Beat, WorkerInfo, WorkerRef, WorkerState
from millgate.frozen import dataclass
from millgate.message import Claim, ClaimRef, Group, Message, Receipt
from millgate.outcome import Failure
from millgate.queues import Configuration, QueuePolicy, Subscription, TopicPolicy
from millgate.settlement import Settlement
from millgate.stats import Stats

#: Seconds that any one call may take, connecting included.
DEADLINE: Final = 10.0
#: Seconds for which the id of a settled message without result stays known, so that a repeated publish stores nothing.
PUBLISH_MEMORY: Final = 60.0
#: Most messages in one publish, settlements in one settle, claims in one claim.
MAX_BATCH: Final = 1000


class State(StrEnum):
    """Where a message is."""

    UNKNOWN = "unknown"  # never seen, or all trace of it has expired
    DELAYED = "delayed"  # not due yet, retries that wait included
    WAITING = "waiting"
    RUNNING = "running"  # leased
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether it will not change any more by itself."""
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELLED)


class CancelState(StrEnum):
    """What `cancel` met."""

    REMOVED = "removed"  # it was waiting or delayed, and is gone
    SIGNALLED = "signalled"  # it runs; its worker is told with the next renewal, and stops it
    FINISHED = "finished"  # too late: it has ended
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a worker wants: up to `n` messages of its topics. `n` = 0 asks only for the state."""

    subscription: Subscription = Subscription()
    n: int = 1


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer to a claim.

    `stale` are the ids of settlements whose token was not valid any more (or that an earlier, repeated call had
    carried out): they changed nothing. `next_due` is the number of seconds after which time alone may make
    something claimable for this worker; None: nothing will.
    """

    claims: tuple[Claim, ...] = ()
    stale: tuple[str, ...] = ()
    state: WorkerState = WorkerState.ACTIVE
    revision: int = 0
    next_due: float | None = None


@dataclass(frozen=True, slots=True)
class Extended:
    """The answer to a renewal: ids that are not held any more, ids to stop, what the broker thinks of the worker."""

    lost: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    state: WorkerState = WorkerState.ACTIVE
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Fenced:
    """The answer to a fence: whether the worker is known, and how many claims it holds. None: unknown."""

    known: bool
    leased: int | None


@dataclass(frozen=True, slots=True)
class TaskState:
    """All that is known of one message."""

    id: str
    state: State = State.UNKNOWN
    topic: str = ""
    result: bytes | None = None  # encoded; only when SUCCEEDED and kept
    failure: Failure | None = None  # of the last attempt
    reason: str = ""  # why it was buried
    progress: bytes | None = None
    attempt: int = 0
    worker: str = ""  # who runs it


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message given up, whole: replaying it publishes `message` again, chain, group and options included."""

    id: str
    topic: str
    reason: str
    died: float  # seconds since 1970, the broker's clock
    message: Message | None  # None: it cannot be decoded; `raw` has the bytes
    failure: Failure | None = None
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    interruptions: int = 0
    worker: str = ""
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Peeked:
    """A message looked at where it lies."""

    id: str
    topic: str
    state: State
    message: Message | None
    attempt: int = 0
    due_in: float | None = None  # seconds, when DELAYED
    worker: str = ""  # when RUNNING


@dataclass(frozen=True, slots=True)
class Lock:
    """A named lock; `fence` grows with every grant, so that a resource can refuse an older holder."""

    name: str
    holder: str
    fence: int
    left: float  # seconds


@dataclass(frozen=True, slots=True)
class Server:
    """What is behind a connection, for status and logs. `endpoint` carries no secret."""

    kind: str
    endpoint: str
    version: str = ""
    schema: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Broker(Protocol):
    """One queue on one broker."""

    # --- preparing -------------------------------------------------------------------------------

    def setup(self) -> None:
        """Create or migrate what is stored. Many may call it at once; data is never dropped.

        Raises SchemaTooNew, PermissionMissing, VersionUnsupported, UnsafeServer, AuthFailed, ForeignPeer.
        """

    def server(self) -> Server:
        """What is behind this connection."""

    def configure(
        self,
        topics: Sequence[TopicPolicy],
        queue: QueuePolicy | None = None,
        *,
        replace: bool = False,
    ) -> int:
        """Store policies and answer the revision; the next claim anywhere obeys them.

        Topics that are not named keep theirs, unless `replace`: then they become undeclared (their messages stay).
        Policies equal to the stored ones change nothing, not even the revision.
        """

    def configuration(self) -> Configuration:
        """What is stored."""

    # --- producing -------------------------------------------------------------------------------

    def publish(self, messages: Sequence[Message], group: Group | None = None) -> list[Receipt]:
        """Store messages, all or none, in order; answer one receipt each.

        An id that is known (waiting, running, its result kept, in the dead letters, or settled less than
        PUBLISH_MEMORY seconds ago) is answered as a duplicate of itself; a `unique` text that is taken as a
        duplicate of its holder. `group` is stored in the same step; its members are among `messages`.
        Raises InvalidMessage and its kinds, QueueFull.
        """

    # --- working ---------------------------------------------------------------------------------

    def register(self, worker: WorkerRef, info: WorkerInfo) -> None:
        """Enter the registry; a name's older incarnation is UNKNOWN from now on. Repeating renews. A fence stays
        with the incarnation that it was set on."""

    def unregister(self, worker: WorkerRef) -> None:
        """Leave the registry. Claims still held are given back, uncharged."""

    def claim(self, worker: WorkerRef, ask: Ask, settlements: Sequence[Settlement] = ()) -> Claimed:
        """Carry out `settlements`, then hand over up to `n` messages that this worker may start now.

        In one atomic step: the worker is registered, of this incarnation, not fenced; the queue is not suspended
        and the topic not paused; the message is due and not expired (an expired one is buried on the way); the
        queue's limit, the topic's limit, the key's limit and the rate allow it, and nobody else's reserve is used.
        Strict levels first, then fair by weight within a level; what has waited long is raised (ageing), without
        shutting out the rest. Within a topic: higher message priority first, then the order of publication.
        What a limit refuses is charged nothing. The attempt is counted here.
        A worker that may not claim still settles. A repeat answers the same claims; its settlements are stale.
        After a call that was never answered the worker's next claim is a repeat, too, and may be given more than `n`.
        """

    def settle(self, settlements: Sequence[Settlement]) -> tuple[str, ...]:
        """Carry out settlements, mixed, in order; answer the ids whose token was stale (nothing changed there).

        The messages that an Ack publishes are stored in the same step as the ack: both or neither.
        """

    def extend(self, worker: WorkerRef, claims: Sequence[ClaimRef], beat: Beat) -> Extended:
        """Renew the leases (each by its topic's length) and the registry row."""

    def progress(self, claim: ClaimRef, value: bytes) -> bool:
        """Store the progress of a run; False: the token is stale."""

    def wait_for_work(self, subscription: Subscription, timeout: float) -> bool:
        """Block until something may have become claimable or someone called `interrupt`, at most `timeout` seconds.

        Answers whether a claim is worth a try. Woken by the broker, not by polling.
        """

    def interrupt(self) -> None:
        """Make a `wait_for_work` in another thread return now, or the next one return at once."""

    # --- steering --------------------------------------------------------------------------------

    def fence(self, worker: str, ttl: float) -> Fenced:
        """Forbid a worker (its present incarnation) to claim, for `ttl` seconds; when it returns, no claim follows."""

    def unfence(self, worker: str) -> bool:
        """Lift a fence; False: there was none."""

    def stats(self) -> Stats:
        """Topics and workers at one moment, in one round trip."""

    def pause(self, topic: str, paused: bool) -> None:
        """Stop or resume claims from a topic, beside what `configure` says; publishing goes on."""

    # --- looking up ------------------------------------------------------------------------------

    def states(self, ids: Sequence[str]) -> list[TaskState]:
        """What is known of each id, in order."""

    def wait(self, ids: Sequence[str], timeout: float) -> list[TaskState]:
        """Block until at least one of the ids is final, at most `timeout` seconds; then as `states`.

        Woken by the settlement, not by polling.
        """

    def peek(self, topic: str, state: State, limit: int = 20) -> list[Peeked]:
        """Look at messages in the order in which they would run, without touching them."""

    # --- administration --------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str]) -> list[CancelState]:
        """Remove what has not started; signal what runs. Cancelled messages are final, not dead letters."""

    def requeue(self, ids: Sequence[str]) -> list[str]:
        """Take running messages from their holders (whose tokens become stale) and let them wait again, uncharged.
        Answers the ids that were running."""

    def purge(self, topic: str, states: Sequence[State] = (State.WAITING, State.DELAYED)) -> int:
        """Remove a topic's messages in these states (WAITING, DELAYED); answers how many."""

    def dead(
        self, topic: str | None = None, limit: int = 100, after: str | None = None
    ) -> list[DeadLetter]:
        """Dead letters, newest first; `after` is the id that ended the previous page."""

    def dead_letter(self, id: str) -> DeadLetter | None:  # noqa: A002 -- the field's name everywhere
        """One dead letter, whole."""

    def replay(self, ids: Sequence[str]) -> list[str]:
        """Publish dead letters again under their ids, counts at zero, chain, group and options kept; answers those
        that were there."""

    def purge_dead(self, topic: str | None = None, ids: Sequence[str] | None = None) -> int:
        """Forget dead letters: those named, or all of a topic, or all; answers how many."""

    # --- locks and schedules ---------------------------------------------------------------------

    def acquire(self, name: str, holder: str, ttl: float) -> Lock | None:
        """Take a lock, or renew it when `holder` has it; None: somebody else has it. `fence` grows per new grant."""

    def renew(self, name: str, holder: str, fence: int, ttl: float) -> bool:
        """Keep a lock; False: it is not this grant's any more."""

    def release(self, name: str, holder: str | None = None, fence: int | None = None) -> bool:
        """Give a lock back; with neither holder nor fence, by force. False: it was not held so."""

    def locks(self) -> list[Lock]:
        """All locks held now."""

    def fire(self, schedule: str, slot: float, messages: Sequence[Message]) -> bool:
        """Publish `messages` for one slot of a schedule (seconds since 1970), once in the whole fleet.

        False: this slot or a later one has fired already. Both happen in one step.
        """

    def schedules(self) -> Mapping[str, float]:
        """The last slot that each schedule fired."""

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Free what this object holds; leases and registrations stay."""
