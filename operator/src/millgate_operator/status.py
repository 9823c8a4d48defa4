"""What a queue's status says: conditions from ordered checks, and numbers rounded to what matters. Pure.

The first check that answers is the reason shown. Reasons are stable words; messages say what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Final

from millgate.stats import TopicStats
from millgate_operator import names
from millgate_operator.conditions import Condition, no, stamp, yes
from millgate_operator.observed import Seen, Trouble, WorkersView
from millgate_operator.spec import Workers

Check = Callable[[Seen], Condition | None]


# --- the questions about a TaskQueue, in the order of the answer shown ---------------------------


def _troubles(seen: Seen) -> Trouble | None:
    return seen.spec or seen.connection or seen.objects or seen.broker.trouble


def _trouble(seen: Seen) -> Condition | None:
    found = _troubles(seen)
    return no("Ready", found.reason, found.message) if found else None


def _suspended(seen: Seen) -> Condition | None:
    if seen.queue.spec.suspend == "None":
        return None
    return no(
        "Ready", "Suspended", "spec.suspend holds all tasks; set it to None to go on", bad=False
    )


def _workers_missing(seen: Seen) -> Condition | None:
    available = workers_available(seen)
    if available is None or available.status:
        return None
    return Condition("Ready", available.status, available.reason, available.message, available.bad)


def _nothing_wrong(seen: Seen) -> Condition | None:
    workers = seen.queue.spec.workers
    waits = workers is not None and workers.mode == "Manual" and workers.replicas == 0
    rest = "wait: workers.replicas is 0" if waits else "are run"
    return yes("Ready", "Ready", f"tasks can be sent, and {rest}")


READY: Final[tuple[Check, ...]] = (_trouble, _suspended, _workers_missing, _nothing_wrong)


def first(checks: tuple[Check, ...], seen: Seen) -> Condition:
    """The first answer."""
    return next(answer for check in checks if (answer := check(seen)) is not None)


def broker_connected(seen: Seen) -> Condition | None:
    """Whether the broker answered, and as what."""
    trouble = seen.connection or seen.broker.trouble
    if trouble is not None:
        return no("BrokerConnected", trouble.reason, trouble.message)
    if not seen.broker.endpoint:
        return Condition("BrokerConnected", None, "NotTried", "the manifest has to be mended first")
    return yes("BrokerConnected", "Connected", f"{seen.broker.endpoint} answers")


def workers_available(seen: Seen) -> Condition | None:
    """Whether there is somebody to run tasks; None: the queue has no pool."""
    if seen.queue.spec.workers is None:
        return None
    view = seen.workers
    if seen.pool is not None:
        return Condition("WorkersAvailable", None, seen.pool.reason, seen.pool.message)
    if view is None:
        words = "the Deployment is not there yet"
        return no("WorkersAvailable", "WorkersStarting", words, bad=False)
    if view.desired == 0:
        return yes("WorkersAvailable", "ScaledToZero", _why_zero(seen))
    if view.ready > 0:
        words = f"{view.ready} of {view.desired} are ready"
        rest = _why_none(view)
        if view.ready < view.desired and rest.bad:  # such as a quota that is used up
            words = f"{words}; the others are not: {rest.message}"
        return yes("WorkersAvailable", "MinimumAvailable", words)
    return _why_none(view)


def _why_zero(seen: Seen) -> str:
    workers, decision = seen.queue.spec.workers, seen.decision
    if workers is not None and workers.mode != "Auto":
        return f"no pods: autoscaling.mode is {workers.mode}, and 0 are asked for"
    if seen.queue.spec.suspend == "HoldAndDrain":
        return "no pods, as spec.suspend is HoldAndDrain"
    if decision is None or decision.reason == "SignalLost":
        return "no pods; whether there is something to do is not known"
    return "no pods, as there is nothing to do"


def _why_none(view: WorkersView) -> Condition:
    for pod in view.pods:
        if pod.trouble:
            return no("WorkersAvailable", pod.trouble, f"pod {pod.name}: {pod.detail}")
        if pod.unschedulable_since is not None:
            return no("WorkersAvailable", "Unschedulable", f"pod {pod.name}: {pod.detail}")
    if view.stuck:
        return no("WorkersAvailable", "DeploymentStuck", view.stuck)
    return no("WorkersAvailable", "WorkersStarting", f"0 of {view.desired} are ready", bad=False)


#: What held a decision back → the condition's reason, its words, whether it is bad.
_CAPPED: Final = {
    "max": ("CappedByMax", "more pods are wanted than autoscaling.max allows", True),
    "CrashLoop": (
        "FrozenCrashLoop",
        "new pods do not live; there will be no more of them until one does",
        True,
    ),
    "Unschedulable": (
        "FrozenUnschedulable",
        "pods find no node; there will be no more of them until one does",
        True,
    ),
    "Rollout": (
        "FrozenRollout",
        "pods are being replaced; there is no scale-in meanwhile",
        False,
    ),
    "ScaleInPaused": ("ScaleInPaused", "scale-in is paused", False),
}


def _who_else(workers: Workers) -> str:
    if workers.autoscaling is None or workers.autoscaling.mode is None:
        return (
            f"workers.replicas is {workers.replicas} (mode Manual; `kubectl scale` sets it);"
            " remove it to let the operator decide"
        )
    return f"autoscaling.mode is {workers.mode}"


def autoscaling_active(seen: Seen) -> Condition | None:
    """Whether the operator decides the number of pods; None: the queue has no pool."""
    workers, decision = seen.queue.spec.workers, seen.decision
    if workers is None:
        return None
    if workers.mode != "Auto":
        return no("AutoscalingActive", "Disabled", _who_else(workers), bad=False)
    if decision is None:
        return Condition("AutoscalingActive", None, "Starting", "no decision has been made yet")
    if decision.reason == "SignalLost":
        return no(
            "AutoscalingActive",
            "SignalLost",
            "the broker or the cluster does not answer; the number of pods stays as it is",
        )
    if decision.limited_by in _CAPPED:
        reason, words, bad = _CAPPED[decision.limited_by]
        return yes("AutoscalingActive", reason, words, bad=bad)
    return yes("AutoscalingActive", "Active", f"{decision.desired} wanted: {decision.reason}")


def stalled(seen: Seen) -> Condition | None:
    """Present only when somebody must change something."""
    found, view = _troubles(seen), seen.workers
    if found and not found.passing:
        return yes("Stalled", found.reason, found.message)
    if view is not None and view.rollout and view.stuck:
        return yes("Stalled", "DeploymentStuck", f"{view.stuck}{_why_not(view)}")
    return None


def reconciling(seen: Seen) -> Condition | None:
    """Present only while something is under way."""
    found = _troubles(seen)
    if found is not None and found.passing:
        return yes("Reconciling", found.reason, found.message)
    view = seen.workers
    if view is not None and view.desired and view.rollout and not view.stuck:
        return yes(
            "Reconciling",
            "RollingOut",
            f"{view.updated} of {view.desired} are of the present template{_why_not(view)}",
        )
    return None


def _why_not(view: WorkersView) -> str:
    """What ails a pod, as the end of a sentence; empty when nothing does."""
    rest = _why_none(view)
    return f"; {rest.message}" if rest.bad and rest.reason != "DeploymentStuck" else ""


def development_broker(seen: Seen) -> Condition | None:
    """Present for brokers that are for trying."""
    broker = seen.queue.spec.broker
    if broker.type != "Local":
        return None
    words = "a Local broker is one pod: when it is away, nothing is claimed; choose Postgres for more than that"
    if broker.local is None or broker.local.storage is None:
        words += "; without broker.local.storage its tasks go with the pod, which an upgrade replaces too"
    return yes("DevelopmentBroker", "Local", words)


def suspended(seen: Seen) -> Condition | None:
    """Present while the queue is suspended."""
    mode = seen.queue.spec.suspend
    return None if mode == "None" else yes("Suspended", mode, "no task starts; sending goes on")


def paused(seen: Seen) -> Condition | None:
    """Present while the operator leaves the object alone."""
    if not seen.paused:
        return None
    words = f"annotation {names.ANNOTATION_RECONCILE} is {names.PAUSED}; remove it to let the operator work again"
    return yes("ReconciliationPaused", "Annotation", words)


ASPECTS: Final[tuple[Check, ...]] = (
    broker_connected,
    workers_available,
    autoscaling_active,
    reconciling,
    stalled,
    suspended,
    development_broker,
    paused,
)


def queue_conditions(seen: Seen) -> list[Condition]:
    """All conditions of a TaskQueue."""
    return [first(READY, seen), *(answer for ask in ASPECTS if (answer := ask(seen)) is not None)]


# --- the numbers ---------------------------------------------------------------------------------


def queue_fields(seen: Seen) -> dict[str, Any]:
    """Everything of a TaskQueue's status but conditions and observedGeneration."""
    out: dict[str, Any] = {"broker": _broker(seen)}
    connection = seen.queue.spec.broker.connection
    if connection is not None:
        out["binding"] = {"name": connection.secret_ref.name}
    if seen.broker.revision is not None:
        out["configRevision"] = seen.broker.revision
    if seen.queue.spec.workers is not None:
        out["workers"] = _workers(seen)
    stats = seen.broker.stats
    if stats is not None:
        out["summary"] = sums(list(stats.topics.values()))
        out["topics"] = _topics(stats.topics)
    return out


def _broker(seen: Seen) -> dict[str, Any]:
    broker = seen.broker
    found = {
        "type": seen.queue.spec.broker.type,
        "endpoint": broker.endpoint,
        "serverVersion": broker.version,
        "schemaVersion": broker.schema,
        "queue": seen.queue.broker_queue,
        "brokerd": broker.brokerd,
        "secretResourceVersion": seen.secret_version,
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def _workers(seen: Seen) -> dict[str, Any]:
    out: dict[str, Any] = {"selector": names.selector_text(seen.queue.meta.name, names.WORKER)}
    if seen.pool is None:
        out |= _counts(seen.workers or WorkersView())
    if seen.cold_start is not None:
        out["coldStartSeconds"] = rounded(ceil(seen.cold_start))
    if seen.broker.stats is not None:
        rows = seen.broker.stats.workers
        out["busy"] = sum(row.leased > 0 for row in rows)
        out["draining"] = sum(row.state == "Fenced" or row.beat.draining for row in rows)
    decision = seen.decision
    if decision is not None and decision.desired is not None:
        out["decision"] = {
            "desired": decision.desired,
            "reason": decision.reason,
            "at": stamp(decision.at),
        }
        if decision.limited_by:
            out["decision"]["limitedBy"] = decision.limited_by
    return out


def _counts(view: WorkersView) -> dict[str, int]:
    return {
        "replicas": view.replicas,
        "desired": view.desired,
        "ready": view.ready,
        "updated": view.updated,
    }


def _topics(topics: Mapping[str, TopicStats]) -> dict[str, Any]:
    strays = sorted(name for name, topic in topics.items() if not topic.declared)
    declared = sum(topic.declared for topic in topics.values())
    return {"declared": declared, "undeclaredCount": len(strays), "undeclared": strays[:20]}


def sums(topics: list[TopicStats]) -> dict[str, Any]:
    """Sums, rounded; what is unknown of one topic is left out for all."""
    out: dict[str, int] = {}
    parts = {
        "queued": [_add(topic.waiting, topic.delayed) for topic in topics],
        "running": [topic.leased for topic in topics],
        "dead": [topic.dead for topic in topics],
    }
    for name, numbers in parts.items():
        known = [number for number in numbers if number is not None]
        if len(known) == len(numbers):
            out[name] = rounded(sum(known))
    ages = [topic.oldest for topic in topics if topic.oldest is not None]
    if ages:
        out["oldestSeconds"] = rounded(int(max(ages)))
    return out


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def rounded(number: int) -> int:
    """Two significant digits: enough to look at, and still for as long as possible."""
    size = max(0, len(str(number)) - 2)
    return int(round(number, -size))
