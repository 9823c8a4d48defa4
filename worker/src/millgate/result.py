"""The handle of something sent: its state, result and progress, asked of the broker, which wakes who waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from millgate import codec
from millgate.aside import aside, nobody
from millgate.errors import (
    InvalidInput,
    ResultMissing,
    ResultTimeout,
    TaskCancelled,
    TaskFailed,
)
from millgate.frozen import dataclass
from millgate.hints import TYPE_CHECKING, Any, Final
from millgate.limits import parse_duration

if TYPE_CHECKING:
    from datetime import timedelta

    from millgate.brokers.base import Broker, CancelState, State, TaskState
    from millgate.clock import Clock

    Timeout = float | str | timedelta | None

#: Most seconds of one wait at the broker; a longer one is a row of these.
_ONE_WAIT: Final = 60.0
_CANCEL_ORDER: Final = ("signalled", "removed", "unknown", "finished")


@dataclass(frozen=True, slots=True)
class Source:
    """Where results come from: one for each app."""

    broker: Callable[[], Broker]
    clock: Clock


class Result:
    """One message that was sent, or the end of a chain.

    `steps` are the ids of a chain's earlier steps, in order. `duplicate`: nothing new was stored, this is the handle
    of an equal one, or of a chain whose first step is there already. `expected`: the broker may not know the id for a
    while (a callback, an open transaction).
    """

    __slots__ = ("duplicate", "expected", "id", "source", "steps")

    def __init__(
        self,
        source: Source,
        id: str,  # noqa: A002 -- the field's name everywhere
        *,
        steps: Sequence[str] = (),
        duplicate: bool = False,
        expected: bool = False,
    ) -> None:
        self.source = source
        self.id = id
        self.steps = tuple(steps)
        self.duplicate = duplicate
        self.expected = expected

    def __repr__(self) -> str:
        return f"Result({self.id!r})"

    def result(self, timeout: Timeout = None) -> Any:
        """What the task returned; waits for it, at most `timeout` (seconds, "5m" or a timedelta).

        Raises TaskFailed and TaskCancelled (also when an earlier step of a chain ended so), ResultTimeout,
        ResultMissing (it expired, was not kept, or never existed), and the broker's errors.
        """
        return _values([self], timeout)[0]

    async def result_async(self, timeout: Timeout = None) -> Any:
        """As `result`, waiting in a thread of its own, so that the event loop stays free."""
        return await aside(lambda gone: _values([self], timeout, gone)[0])

    def status(self) -> TaskState:
        """All that the broker knows of it."""
        return self.source.broker().states([self.id])[0]

    def state(self) -> State:
        """Where it is."""
        return self.status().state

    def progress(self) -> Any:
        """The newest progress that the task reported; None when there is none."""
        data = self.status().progress
        return None if data is None else codec.decode(data)

    def cancel(self) -> CancelState:
        """Remove it if it waits, stop it if it runs. For a chain: whichever step that meets."""
        met = self.source.broker().cancel([*self.steps, self.id])
        if met[-1] == "finished":
            return met[-1]
        return min(met, key=_CANCEL_ORDER.index)

    def end(self, states: Mapping[str, TaskState]) -> TaskState | None:
        """The state that ends the wait: that of the last step, or of an earlier one that went wrong."""
        for id in (*self.steps, self.id):  # noqa: A001 -- the field's name everywhere
            state = states.get(id)
            if state is None or not state.state.final:
                continue
            if id == self.id or state.state != "succeeded":
                return state
        return None

    def missing(self, states: Mapping[str, TaskState]) -> bool:
        """Whether the broker knows nothing of it."""
        ids = (*self.steps, self.id)
        return all(id not in states or states[id].state == "unknown" for id in ids)  # noqa: A001

    def broken(self, states: Mapping[str, TaskState]) -> str | None:
        """The step of a chain behind which nothing came, though it succeeded: a next one is stored in the same step."""
        known = [
            id
            for id in (*self.steps, self.id)  # noqa: A001 -- the field's name everywhere
            if id in states and states[id].state != "unknown"
        ]
        if not known or known[-1] == self.id or states[known[-1]].state != "succeeded":
            return None
        return known[-1]


def value_of(state: TaskState) -> Any:
    """What a task that ended returned. Raises TaskFailed, TaskCancelled, or ResultMissing when it was not kept."""
    if state.state == "cancelled":
        raise TaskCancelled(f"{state.id} was cancelled")
    if state.state == "failed":
        failure, why = state.failure, state.reason or "Failed"
        parts = () if failure is None else (failure.error, failure.message)
        said = ": ".join((f"{state.id} ended as {why}", *filter(None, parts)))
        raise TaskFailed(said, failure, why)
    if state.result is None:
        raise ResultMissing(f"{state.id}: it succeeded, but its result is not kept (result_ttl)")
    return codec.decode(state.result)


def as_completed(results: Iterable[Result], timeout: Timeout = None) -> Iterator[Result]:
    """The results in the order in which they end, well or badly.

    Raises ResultTimeout when some are left after `timeout` seconds, ResultMissing, and the broker's errors.
    """
    return (result for result, _ in _ends(_handles("as_completed", results), timeout))


def gather(results: Iterable[Result], timeout: Timeout = None) -> list[Any]:
    """What all of them returned, in their order. The first bad end is raised as soon as it is known.

    Raises InvalidInput for what is no result, and what `as_completed` raises.
    """
    return _values(_handles("gather", results), timeout)


async def gather_async(results: Iterable[Result], timeout: Timeout = None) -> list[Any]:
    """As `gather`, waiting in one thread of its own, so that the event loop stays free."""
    handles = _handles("gather_async", results)
    return await aside(lambda gone: _values(handles, timeout, gone))


def _values(
    results: Sequence[Result], timeout: Timeout, gone: Callable[[], bool] = nobody
) -> list[Any]:
    values = {result.id: value_of(state) for result, state in _ends(results, timeout, gone)}
    return [values[result.id] for result in results]


def _handles(what: str, results: Iterable[Result]) -> list[Result]:
    """The results as a list. Raises InvalidInput for what is not several."""
    if isinstance(results, Result) or not isinstance(results, Iterable):
        raise InvalidInput(
            f"{what} takes several handles, such as [first, second], not {codec.cut(repr(results))}"
        )
    return list(results)


def _ends(
    results: Iterable[Result], timeout: Timeout, gone: Callable[[], bool] = nobody
) -> Iterator[tuple[Result, TaskState]]:
    """Each result with the state that ended it, as they end; until it is said that who waits is `gone`."""
    waiting = {_checked(result).id: result for result in results}
    if not waiting:
        return
    sources = {result.source for result in waiting.values()}
    if len(sources) > 1:
        raise InvalidInput("these results come from several apps; wait for those of one at a time")
    [source] = sources
    until = None if timeout is None else source.clock.monotonic() + parse_duration(timeout)
    states = _by_id(source.broker().states(_watched(waiting, {})))
    while True:
        for result in list(waiting.values()):
            state = result.end(states)
            if state is not None:
                del waiting[result.id]
                yield result, state
        if not waiting or gone():
            return
        left = _ONE_WAIT if until is None else until - source.clock.monotonic()
        _refuse(waiting, states, left)
        states.update(_by_id(source.broker().wait(_watched(waiting, states), min(left, _ONE_WAIT))))


def _checked(result: Result) -> Result:
    if not isinstance(result, Result):
        raise InvalidInput(
            f"{codec.cut(repr(result))} is no result: give what `send` answered, or app.get(id)"
        )
    return result


def _watched(waiting: Mapping[str, Result], states: Mapping[str, TaskState]) -> list[str]:
    """The ids that are still to end: those of all steps, but for the ones that ended already."""
    ids = [id for result in waiting.values() for id in (*result.steps, result.id)]  # noqa: A001
    return [id for id in ids if id not in states or not states[id].state.final]  # noqa: A001


def _by_id(states: Iterable[TaskState]) -> dict[str, TaskState]:
    return {state.id: state for state in states}


def _refuse(waiting: Mapping[str, Result], states: Mapping[str, TaskState], left: float) -> None:
    """Raise what ends the wait without an end of the task."""
    for result in waiting.values():
        step = result.broken(states)
        if step is not None:
            raise ResultMissing(
                f"{result.id}: it will not come: step {step}, before it in its chain, succeeded and brought no other; "
                "either it was there before this chain was sent (task_id), or what followed it is not known any more"
            )
        if result.missing(states) and (not result.expected or left <= 0):
            raise ResultMissing(
                f"{result.id}: nothing is known of it; it expired or was never sent"
            )
    if left <= 0:
        first = next(iter(waiting))
        raise ResultTimeout(f"{first} did not end in time; it may still run")
