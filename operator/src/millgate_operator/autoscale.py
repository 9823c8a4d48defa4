"""Looks at one queue every few seconds: reads, lets `scaling` decide, acts. At zero it looks more often.

Everything that shrinks a pool is judged twice: by the decision, and again by readings made right before the patch.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from millgate.brokers.base import Broker
from millgate.errors import MillgateError
from millgate_operator import names, observe
from millgate_operator.apply import scale
from millgate_operator.cluster import POD, SECRET, ClusterError
from millgate_operator.context import Context, PoolState
from millgate_operator.links import Key
from millgate_operator.observed import LastDecision, Trouble
from millgate_operator.report import NUMBERS_EVERY
from millgate_operator.scaling import FENCE_TTL, Decision, confirm, decide, pool
from millgate_operator.status import rounded

_LOG = logging.getLogger(__name__)
#: Seconds for which a pool is believed to be as it was seen while the watch tells of no change.
_BELIEVED: Final = 60.0
_AT_ONCE: Final = 0.1
_SECRET_EVERY: Final = 30.0
#: Longest wait for a broker that did not answer to be asked again.
_PATIENCE: Final = 20.0
_COST: Final = {names.DELETION_COST: "-1000"}
_NO_COST: Final[dict[str, str | None]] = {names.DELETION_COST: None}


def look(context: Context, key: Key) -> float | None:
    """One look at a queue. Answers after how many seconds the next one is due; None: it is gone."""
    state = context.pools.get(key)
    if state is None:
        return None
    broker = context.links.get(key)
    _read_stats(state, broker)
    try:
        _check_secret(context, key, state)
        if state.policy is not None:
            _size(context, key, state, broker)
    except ClusterError as error:
        state.viewed = float("-inf")
        if error.status == 409:
            return _AT_ONCE  # what we judged has changed since: judge it anew
        if not error.passing:
            raise
        _LOG.info("%s/%s: %s", *key, error)
    _tell(context, key, state)
    return _next_look(context, state)


def _next_look(context: Context, state: PoolState) -> float:
    """Seconds until the next look. A broker that does not answer takes a thread for its whole deadline each time, and
    threads are shared: it is asked ever more rarely, up to a bound."""
    at_zero = state.view is not None and state.view.desired == 0 and not state.view.pods
    usual = context.settings.zero_tick if at_zero else context.settings.tick
    if state.policy is None:
        usual = NUMBERS_EVERY / 2
    return min(max(_PATIENCE, usual), usual * 2.0 ** min(state.failures, 10))


def _read_stats(state: PoolState, broker: Broker | None) -> None:
    state.stats = None
    if broker is None:
        return
    try:
        state.stats, state.trouble, state.failures = broker.stats(), None, 0
    except MillgateError as error:
        state.failures += 1
        state.trouble = Trouble(error.reason, str(error), passing=True)


def _check_secret(context: Context, key: Key, state: PoolState) -> None:
    """Secrets are not watched: that would need the right to list them."""
    reference = state.queue.spec.broker.connection
    now = context.clock.monotonic()
    if reference is None or now - state.secret_seen < _SECRET_EVERY:
        return
    state.secret_seen = now
    secret = context.cluster.get(SECRET, key[0], reference.secret_ref.name)
    if secret is None or secret["metadata"]["resourceVersion"] != state.secret_version:
        context.reconciles.add(key)


def _size(context: Context, key: Key, state: PoolState, broker: Broker | None) -> None:
    assert state.policy is not None
    _view(context, key, state)
    now = pool(state.view, context.clock.now()) if state.view is not None else None
    decision, state.memory = decide(
        state.policy, state.memory, context.clock.monotonic(), state.stats, now
    )
    state.terms = decision.terms
    _note(context, state, decision)
    workers = state.queue.spec.workers
    if workers is None or workers.mode == "External":
        return  # the number is shown, and nobody here acts on it
    if broker is not None and state.stats is not None:
        _empty(context, key, broker, decision)
    if decision.remove:
        _remove(context, key, state, broker, decision)
    elif decision.replicas is not None:
        _scale(context, key, state, decision.replicas)


def _view(context: Context, key: Key, state: PoolState) -> None:
    """The pool as it is; what the watch has not touched is not read again at every look.

    Growing on a view that is a moment old does no harm: the patch names the version that was judged. Shrinking
    reads anew in any case.
    """
    now, stirred = context.clock.monotonic(), state.stirred
    fresh = state.viewed_at == stirred and now - state.viewed < _BELIEVED
    if fresh and state.view is not None:
        return
    found = observe.workers(context.cluster, *key)
    state.view, state.version = found or (None, "")
    state.viewed, state.viewed_at = now, stirred


def _empty(context: Context, key: Key, broker: Broker, decision: Decision) -> None:
    """Fence and unfence. A fence holds when the call returns, so nothing is claimed behind our back."""
    try:
        for name in decision.unfence:
            # in this order: what fails between the two is found fenced, and done again
            context.cluster.annotate(POD, key[0], name, _NO_COST)
            broker.unfence(name)
        for name in decision.fence:
            broker.fence(name, FENCE_TTL)
    except MillgateError as error:
        raise ClusterError(0, error.reason, f"the broker did not take a fence: {error}") from error
    for name in decision.mark:
        context.cluster.annotate(POD, key[0], name, dict(_COST))


def _remove(
    context: Context, key: Key, state: PoolState, broker: Broker | None, decision: Decision
) -> None:
    if broker is None:
        return
    _read_stats(state, broker)
    found = observe.workers(context.cluster, *key)
    if state.stats is None or found is None:
        return
    state.view, state.version = found
    now = pool(state.view, context.clock.now())
    names_now = confirm(decision.remove, now, state.stats)
    if names_now:
        _scale(context, key, state, now.replicas - len(names_now))


def _scale(context: Context, key: Key, state: PoolState, replicas: int) -> None:
    """Set the replicas of exactly the Deployment that was judged; another version is judged anew."""
    assert state.view is not None
    before = state.view.desired
    if replicas == before or replicas < 0:
        return
    scale(context.cluster, key[0], names.workers(key[1]), replicas, state.version)
    direction = "up" if replicas > before else "in"
    _LOG.info("%s/%s scaled %s: %d -> %d", *key, direction, before, replicas)
    context.metrics.add(
        "millgate_autoscaler_decisions_total", namespace=key[0], queue=key[1], direction=direction
    )
    about = {
        "apiVersion": names.API_VERSION,
        "kind": "TaskQueue",
        "metadata": {"name": key[1], "namespace": key[0], "uid": state.queue.meta.uid},
    }
    reason = "ScaledUp" if direction == "up" else "ScaledIn"
    words = state.decision.reason if state.decision else ""
    context.recorder.post(about, reason, f"workers {before} -> {replicas}: {words}", warning=False)
    state.view = replace(state.view, desired=replicas)
    state.viewed = float("-inf")


def _note(context: Context, state: PoolState, decision: Decision) -> None:
    last = state.decision
    at = context.clock.now()
    if last is not None and last.desired == decision.desired:
        at = last.at
    state.decision = LastDecision(decision.desired, decision.reason, decision.limited_by, at)


def _tell(context: Context, key: Key, state: PoolState) -> None:
    """Ask for a reconciliation when status has something new to say: troubles at once, numbers now and then."""
    decision = state.decision
    loud = (
        state.trouble.reason if state.trouble else None,
        decision and (decision.desired, decision.limited_by, decision.reason == "SignalLost"),
    )
    news = (loud, _numbers(state))
    if news == state.told:
        return
    now = context.clock.monotonic()
    louder = not isinstance(state.told, tuple) or state.told[0] != loud
    if louder or now - state.told_at >= NUMBERS_EVERY:
        state.told, state.told_at = news, now
        context.reconciles.add(key)


def _numbers(state: PoolState) -> object:
    """What the status would show of the tasks."""
    if state.stats is None:
        return None
    rows = state.stats.workers
    return (
        tuple(
            (name, rounded((topic.waiting or 0) + (topic.delayed or 0)), topic.leased, topic.dead)
            for name, topic in sorted(state.stats.topics.items())
        ),
        len(rows),
        sum(row.leased > 0 for row in rows),
        min((row.beat.revision for row in rows), default=0),
    )
