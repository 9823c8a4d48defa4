"""How many pods a pool should have now, and what to do about it: one function from readings to a decision. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from millgate.stats import Stats, TopicStats
from millgate_operator.scaling import removal
from millgate_operator.scaling.demand import Demand, demand
from millgate_operator.scaling.signal import Signal, known, learn
from millgate_operator.scaling.values import (
    COLD_START,
    Decision,
    Pod,
    Pool,
    Reason,
    ScalingPolicy,
    Terms,
)

#: Seconds between two looks at an active pool; part of the horizon.
TICK: Final = 5.0
_YOUNG: Final = 300.0
#: A pool is left as it is while at least this share of it is wanted.
_TOLERATED: Final = 0.9
_NO_NODE: Final = 120.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What is carried from one decision of a pool to the next."""

    signal: Signal | None = None
    since: float | None = None  # when the readings began
    last_work: float | None = None
    wanted: tuple[tuple[float, int], ...] = ()  # (when, pods) of the stabilization window
    step: tuple[float, int] | None = None  # when the growth period began, and with how many pods
    cold_start: float | None = None


@dataclass(frozen=True, slots=True)
class _Wish:
    """A size, why, and what held it back."""

    pods: int
    reason: Reason
    limited_by: str = ""


def decide(
    policy: ScalingPolicy, memory: Memory, now: float, stats: Stats | None, pool: Pool | None
) -> tuple[Decision, Memory]:
    """The decision for one pool, and the memory for the next one. `now` is of a clock that never steps back.

    `stats` and `pool` are None when they could not be read: then everything stays as it is.
    """
    topics = known(stats, policy.subscription)
    if pool is None:
        return Decision(None, Reason.SIGNAL_LOST), memory
    if stats is None or topics is None:
        return _blind(policy, pool), memory
    memory = _remember(memory, now, pool)
    memory = replace(memory, signal=learn(memory.signal, topics, now))
    assert memory.signal is not None
    need = demand(policy, memory.signal, topics, _cold_start(memory) + TICK)
    if need.claimable + need.running > 0:
        memory = replace(memory, last_work=now)
    wish = _wish(policy, memory, now, need, _next_due(stats, topics))
    wish, memory = _stabilize(policy, memory, now, wish, pool)
    wish, memory = _step(policy, memory, now, wish, pool)
    wish = _freeze(wish, pool)
    return _act(policy, wish, pool, stats, need.terms), memory


def _blind(policy: ScalingPolicy, pool: Pool) -> Decision:
    """Without the broker only a fixed number may be grown to: nobody knows who is busy."""
    if policy.fixed is not None and not policy.drain and policy.fixed > pool.replicas:
        return Decision(policy.fixed, Reason.MANUAL, replicas=policy.fixed)
    return Decision(None, Reason.SIGNAL_LOST)


def _remember(memory: Memory, now: float, pool: Pool) -> Memory:
    starts = sorted(pod.start_took for pod in pool.pods if pod.start_took is not None)
    cold = starts[ceil(0.95 * len(starts)) - 1] if starts else memory.cold_start
    return replace(
        memory,
        since=now if memory.since is None else memory.since,
        last_work=now if memory.last_work is None else memory.last_work,
        cold_start=cold,
    )


def _cold_start(memory: Memory) -> float:
    return COLD_START if memory.cold_start is None else memory.cold_start


def _wish(
    policy: ScalingPolicy, memory: Memory, now: float, need: Demand, next_due: float | None
) -> _Wish:
    if policy.drain:
        return _Wish(0, Reason.SUSPENDED)
    if policy.fixed is not None:
        return _Wish(policy.fixed, Reason.MANUAL)
    wish = _Wish(need.pods, _why(need))
    if need.pods == 0:
        wish = _when_idle(policy, memory, now, next_due)
    if wish.pods > policy.maximum:
        return _Wish(policy.maximum, wish.reason, "max")
    if wish.pods < policy.minimum:
        return _Wish(policy.minimum, wish.reason, "min")
    return wish


def _why(need: Demand) -> Reason:
    if need.terms.backlog > 0:
        return Reason.BACKLOG
    return Reason.FORECAST if need.terms.forecast > need.terms.running else Reason.RUNNING


def _next_due(stats: Stats, topics: Mapping[str, TopicStats]) -> float | None:
    """Seconds until delayed work is due that this pool could take; `topics` are those that it does take."""
    delayed = {name for name, topic in stats.topics.items() if topic.delayed != 0}
    mine = {name for name in delayed & topics.keys() if not topics[name].paused}
    return stats.next_due if mine or not delayed else None


def _when_idle(policy: ScalingPolicy, memory: Memory, now: float, next_due: float | None) -> _Wish:
    if next_due is not None and next_due <= 2 * (_cold_start(memory) + TICK):
        return _Wish(1, Reason.DUE_SOON)
    if memory.last_work is not None and now - memory.last_work < policy.idle_after:
        return _Wish(0, Reason.IDLE)
    return _Wish(0, Reason.NO_WORK)


def _stabilize(
    policy: ScalingPolicy, memory: Memory, now: float, wish: _Wish, pool: Pool
) -> tuple[_Wish, Memory]:
    """Shrink only to the most that was wanted in the window, and not before a whole window has been seen."""
    window = policy.stabilization
    if window is None:
        window = min(300.0, max(60.0, 6 * _cold_start(memory)))
    kept = (*(at for at in memory.wanted if at[0] > now - window), (now, wish.pods))
    memory = replace(memory, wanted=kept)
    if wish.reason in (Reason.SUSPENDED, Reason.MANUAL):
        return wish, memory
    most = max(pods for _, pods in kept)
    if memory.since is not None and now - memory.since < window:
        most = max(most, pool.replicas)
    if _TOLERATED * pool.replicas <= most < pool.replicas <= policy.maximum:
        most = pool.replicas  # so little is not worth the back and forth
    if wish.reason is Reason.IDLE:
        most = max(most, min(1, pool.replicas))  # the last pod waits for idleAfter
    if most > wish.pods and wish.pods < pool.replicas:
        reason = Reason.IDLE if wish.reason is Reason.IDLE else Reason.STABILIZING
        return replace(wish, pods=min(most, pool.replicas), reason=reason), memory
    return wish, memory


def _step(
    policy: ScalingPolicy, memory: Memory, now: float, wish: _Wish, pool: Pool
) -> tuple[_Wish, Memory]:
    """Grow by so many pods per period; from zero at once to what is needed."""
    step = memory.step
    if step is None or now - step[0] >= policy.up_period or pool.replicas < step[1]:
        step = (now, pool.replicas)
    memory = replace(memory, step=step)
    if step[1] == 0 or wish.reason is Reason.MANUAL:
        return wish, memory
    most = step[1] + max(policy.up_pods, ceil(step[1] * policy.up_percent / 100))
    if wish.pods > most:
        return replace(wish, pods=most, limited_by="step"), memory
    return wish, memory


def _freeze(wish: _Wish, pool: Pool) -> _Wish:
    """No growth while new pods do not live or find no node."""
    if wish.pods <= pool.replicas or wish.reason is Reason.MANUAL:
        return wish
    held = _held(pool.pods)
    return wish if held is None else replace(wish, pods=pool.replicas, limited_by=held)


def _held(pods: Sequence[Pod]) -> Reason | None:
    staying = [pod for pod in pods if not pod.terminating]
    # the newest say best how the next ones will do; where all are old, they do not get better by it
    judged = [pod for pod in staying if pod.age < _YOUNG] or staying
    if 2 * sum(pod.failing for pod in judged) > len(judged):
        return Reason.CRASH_LOOP
    if any((pod.unschedulable or 0.0) > _NO_NODE for pod in pods):
        return Reason.UNSCHEDULABLE
    return None


def _act(policy: ScalingPolicy, wish: _Wish, pool: Pool, stats: Stats, terms: Terms) -> Decision:
    fleet = removal.fleet(pool, stats)
    decision = _sized(policy, wish, pool, fleet, terms)
    return replace(decision, unfence=decision.unfence + removal.strays(fleet))


def _sized(
    policy: ScalingPolicy, wish: _Wish, pool: Pool, fleet: removal.Fleet, terms: Terms
) -> Decision:
    fenced = fleet.fenced()
    decision = Decision(wish.pods, wish.reason, wish.limited_by, terms=terms)
    if policy.in_paused:
        return _grow(replace(decision, limited_by=Reason.PAUSED), fleet, len(fenced))
    shortage = wish.pods - (pool.replicas - len(fenced))
    if shortage > 0:
        return _grow(decision, fleet, shortage)
    if pool.rollout:
        return replace(decision, limited_by=Reason.ROLLOUT) if shortage or fenced else decision
    return _shrink(policy, decision, fleet, -shortage)


def _grow(decision: Decision, fleet: removal.Fleet, shortage: int) -> Decision:
    """Take back what is being emptied first: it costs nothing and is there at once."""
    back = removal.returning(fleet, shortage)
    assert decision.desired is not None
    more = decision.desired if decision.desired > fleet.replicas else None
    staying = {pod.name for pod in fleet.fenced()} - set(back)
    return replace(decision, unfence=back, replicas=more, fence=removal.renewals(fleet, staying))


def _shrink(
    policy: ScalingPolicy, decision: Decision, fleet: removal.Fleet, excess: int
) -> Decision:
    remove = removal.removable(fleet, excess)
    gone = set(remove)
    leaving = sum(pod.name in gone for pod in fleet.fenced())
    unborn = len(remove) - leaving
    more = removal.victims(policy, fleet, excess - unborn, leaving)
    staying = {pod.name for pod in fleet.fenced()} - gone
    return replace(
        decision,
        remove=remove,
        replicas=fleet.replicas - len(remove) if remove else None,
        fence=more + removal.renewals(fleet, staying),
        mark=tuple(pod.name for pod in removal.drained(fleet) if not pod.marked),
    )
