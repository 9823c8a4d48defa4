"""The broker's verbs as the server carries them out: plain values in, plain values out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from millgate.brokers.base import State
from millgate.brokers.served import reports, values
from millgate.fleet import Beat, WorkerInfo
from millgate.message import ClaimRef
from millgate.queues import policy_from_dict, queue_from_dict

if TYPE_CHECKING:
    from millgate.brokers.core import Core

Plain = values.Plain
Table = Mapping[str, Callable[..., Any]]


def configure(core: Core, now: float, topics: Plain, queue: Any, replace: bool) -> int:
    policies = [policy_from_dict(topic) for topic in topics]
    policy = None if queue is None else queue_from_dict(queue)
    return core.configure(now, policies, policy, replace=replace)


def publish(core: Core, now: float, messages: Plain, group: Plain | None) -> Plain:
    receipts = core.publish(now, values.to_messages(messages), values.to_group(group))
    return [[receipt.id, receipt.duplicate] for receipt in receipts]


def register(core: Core, now: float, worker: Plain, info: Plain) -> None:
    core.register(now, values.to_worker(worker), WorkerInfo(*info))


def unregister(core: Core, now: float, worker: Plain) -> None:
    core.unregister(now, values.to_worker(worker))


def claim(
    core: Core, now: float, worker: Plain, ask: Plain, settlements: Plain, call: str | None = None
) -> Plain:
    settled = list(map(values.to_settlement, settlements))
    return values.from_claimed(
        core.claim(now, values.to_worker(worker), values.to_ask(ask), settled, call)
    )


def settle(core: Core, now: float, settlements: Plain) -> Plain:
    return list(core.settle(now, list(map(values.to_settlement, settlements))))


def extend(core: Core, now: float, worker: Plain, claims: Plain, beat: Plain) -> Plain:
    refs = [ClaimRef(*claim) for claim in claims]
    return values.from_extended(core.extend(now, values.to_worker(worker), refs, Beat(*beat)))


def progress(core: Core, now: float, ref: Plain, value: bytes) -> bool:
    return core.progress(now, ClaimRef(*ref), value)


def fence(core: Core, now: float, worker: str, ttl: float) -> Plain:
    return values.from_fenced(core.fence(now, worker, ttl))


def unfence(core: Core, now: float, worker: str) -> bool:
    return core.unfence(now, worker)


def pause(core: Core, now: float, topic: str, paused: bool) -> None:
    core.pause(now, topic, paused)


def cancel(core: Core, now: float, ids: Plain) -> Plain:
    return list(core.cancel(now, ids))


def requeue(core: Core, now: float, ids: Plain) -> Plain:
    return list(core.requeue(now, ids))


def purge(core: Core, now: float, topic: str, states: Plain) -> int:
    return core.purge(now, topic, tuple(map(State, states)))


def replay(core: Core, now: float, ids: Plain) -> Plain:
    return list(core.replay(now, ids))


def purge_dead(core: Core, now: float, topic: str | None, ids: Plain | None) -> int:
    return core.purge_dead(now, topic, ids)


def acquire(core: Core, now: float, name: str, holder: str, ttl: float) -> Plain | None:
    return reports.from_lock(core.acquire(now, name, holder, ttl))


def renew(core: Core, now: float, name: str, holder: str, fence: int, ttl: float) -> bool:
    return core.renew(now, name, holder, fence, ttl)


def release(core: Core, now: float, name: str, holder: str | None, fence: int | None) -> bool:
    return core.release(now, name, holder, fence)


def fire(core: Core, now: float, schedule: str, slot: float, messages: Plain) -> bool:
    return core.fire(now, schedule, slot, values.to_messages(messages))


# --- without change ------------------------------------------------------------------------------


def configuration(core: Core, _now: float) -> Plain:
    return reports.from_configuration(core.configuration())


def stats(core: Core, now: float) -> Plain:
    return reports.from_stats(core.stats(now))


def states(core: Core, now: float, ids: Plain) -> Plain:
    return reports.from_states(core.states(now, ids))


def peek(core: Core, now: float, topic: str, state: str, limit: int) -> Plain:
    return reports.from_peeked(core.peek(now, topic, State(state), limit))


def dead(core: Core, now: float, topic: str | None, limit: int, after: str | None) -> Plain:
    return [reports.from_dead(letter) for letter in core.dead(now, topic, limit, after)]


def dead_letter(core: Core, now: float, id_: str) -> Plain | None:
    return reports.from_dead(core.dead_letter(now, id_))


def locks(core: Core, now: float) -> Plain:
    return [reports.from_lock(lock) for lock in core.locks(now)]


def schedules(core: Core, _now: float) -> dict[str, float]:
    return dict(core.schedules())


def _table(*functions: Callable[..., Any]) -> Table:
    return {function.__name__: function for function in functions}


#: Verbs that change something: journaled, and answered from memory when they are repeated.
WRITES: Final = _table(
    configure, publish, register, unregister, claim, settle, extend, progress, fence, unfence, pause,
    cancel, requeue, purge, replay, purge_dead, acquire, renew, release, fire,
)  # fmt: skip
#: Verbs that only look.
READS: Final = _table(configuration, stats, states, peek, dead, dead_letter, locks, schedules)
