"""What status says, as tables: the first answer that is no is the reason shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millgate.queues import QueuePolicy, TopicPolicy
from millgate.stats import Stats
from millgate_operator.conditions import changes, no, written, yes
from millgate_operator.observed import BrokerView, LastDecision, PodView, Seen, Trouble, WorkersView
from millgate_operator.spec import Resolved, parse_task_queue, parse_topic
from millgate_operator.status import (
    autoscaling_active,
    queue_conditions,
    queue_fields,
    rounded,
)
from millgate_operator.topic_status import topic_conditions, topic_fields
from support.manifests import a_task_queue, a_topic, workers
from support.pools import a_row, a_topic_reading, fenced

READY_POOL = WorkersView(desired=2, replicas=2, ready=2, updated=2, generation_seen=True)
BROKER = BrokerView("db:5432/app", "16.4", 12, 41, Stats())
DECISION = LastDecision(2, "Running", "", 0.0)
MISSING = Trouble("SecretMissing", "Secret db is not there")
AWAY = Trouble("Unreachable", "no answer", passing=True)


def seen(manifest: dict[str, Any] | None = None, **fields: Any) -> Seen:
    """A queue with which all is well."""
    queue = parse_task_queue(manifest or a_task_queue())
    policies = {"invoices": TopicPolicy(name="invoices")}
    base = Seen(
        queue=queue,
        now=1000.0,
        resolved=Resolved(QueuePolicy(), policies, {}, {}),
        broker=BROKER,
        workers=READY_POOL,
        decision=DECISION,
    )
    return replace(base, **fields)


def answers(what: Seen) -> dict[str, str]:
    return {one.type: f"{one.status}/{one.reason}" for one in queue_conditions(what)}


def crashing(trouble: str) -> WorkersView:
    pods = (PodView("p0", trouble=trouble, detail="exit code 3"),)
    return WorkersView(desired=1, replicas=1, updated=1, generation_seen=True, pods=pods)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, "True/Ready"),
        ({"spec": Trouble("InvalidSpec", "x"), "connection": MISSING}, "False/InvalidSpec"),
        ({"connection": MISSING, "objects": AWAY}, "False/SecretMissing"),
        (
            {"objects": Trouble("InvalidTemplate", "x"), "broker": BrokerView(trouble=AWAY)},
            "False/InvalidTemplate",
        ),
        ({"broker": BrokerView(trouble=AWAY), "workers": None}, "False/Unreachable"),
        ({"workers": None}, "False/WorkersStarting"),
        ({"workers": crashing("CrashLooping")}, "False/CrashLooping"),
        ({"workers": crashing("ImagePull")}, "False/ImagePull"),
        ({"workers": WorkersView(desired=0, generation_seen=True)}, "True/Ready"),
    ],
)
def test_ready_is_the_first_thing_that_is_wrong(fields: dict[str, Any], wanted: str) -> None:
    assert answers(seen(**fields))["Ready"] == wanted


@pytest.mark.parametrize(
    ("fields", "stalled", "reconciling"),
    [
        ({}, None, None),
        ({"connection": MISSING}, "True/SecretMissing", None),
        ({"broker": BrokerView(trouble=AWAY)}, None, "True/Unreachable"),
        ({"workers": replace(READY_POOL, updated=1)}, None, "True/RollingOut"),
        ({"workers": replace(READY_POOL, generation_seen=False)}, None, "True/RollingOut"),
    ],
)
def test_stalled_needs_somebody_and_reconciling_needs_time(
    fields: dict[str, Any], stalled: str | None, reconciling: str | None
) -> None:
    found = answers(seen(**fields))
    assert (found.get("Stalled"), found.get("Reconciling")) == (stalled, reconciling)


@pytest.mark.parametrize(
    ("fields", "decision", "wanted"),
    [
        ({}, DECISION, "True/Active"),
        ({}, None, "None/Starting"),
        ({}, LastDecision(None, "SignalLost", "", 0.0), "False/SignalLost"),
        ({}, LastDecision(10, "Backlog", "max", 0.0), "True/CappedByMax"),
        ({}, LastDecision(3, "Backlog", "CrashLoop", 0.0), "True/FrozenCrashLoop"),
        ({}, LastDecision(3, "Backlog", "Unschedulable", 0.0), "True/FrozenUnschedulable"),
        ({}, LastDecision(3, "Running", "Rollout", 0.0), "True/FrozenRollout"),
        ({}, LastDecision(3, "Running", "ScaleInPaused", 0.0), "True/ScaleInPaused"),
        ({"replicas": 2}, DECISION, "False/Disabled"),
        ({"autoscaling": {"mode": "External"}}, None, "False/Disabled"),
    ],
)
def test_who_decides_the_number_of_pods(
    fields: dict[str, Any], decision: LastDecision | None, wanted: str
) -> None:
    manifest = a_task_queue(workers=workers(**fields))
    assert answers(seen(manifest, decision=decision))["AutoscalingActive"] == wanted


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"replicas": 2}, "workers.replicas is 2"),
        ({"replicas": 2}, "remove it to let the operator decide"),
        ({"replicas": 2, "autoscaling": {"mode": "Manual"}}, "autoscaling.mode is Manual"),
        ({"autoscaling": {"mode": "External"}}, "autoscaling.mode is External"),
    ],
)
def test_who_else_decides_is_named(fields: dict[str, Any], words: str) -> None:
    answer = autoscaling_active(seen(a_task_queue(workers=workers(**fields))))
    assert answer is not None
    assert words in answer.message


def test_a_queue_without_workers_says_nothing_about_them() -> None:
    found = answers(seen(a_task_queue(workers=None), workers=None))
    assert found["Ready"] == "True/Ready"
    assert "WorkersAvailable" not in found
    assert "AutoscalingActive" not in found


def test_a_suspended_queue_is_not_ready_and_that_is_no_warning() -> None:
    what = seen(a_task_queue(suspend="Hold"))
    assert answers(what)["Ready"] == "False/Suspended"
    assert answers(what)["Suspended"] == "True/Hold"
    assert not queue_conditions(what)[0].bad


@pytest.mark.parametrize(
    ("ready", "stuck", "wanted"),
    [
        (
            1,
            "exceeded quota: compute",
            "1 of 2 are ready; the others are not: exceeded quota: compute",
        ),
        (1, "", "1 of 2 are ready"),
        (2, "", "2 of 2 are ready"),
    ],
)
def test_what_keeps_some_of_the_pods_away_is_told_beside_those_that_work(
    ready: int, stuck: str, wanted: str
) -> None:
    pool = replace(READY_POOL, replicas=ready, ready=ready, stuck=stuck)
    [answer] = [
        one for one in queue_conditions(seen(workers=pool)) if one.type == "WorkersAvailable"
    ]
    assert (answer.status, answer.reason, answer.message) == (True, "MinimumAvailable", wanted)


def test_an_unschedulable_pod_is_told_in_the_schedulers_words() -> None:
    pod = PodView("p0", unschedulable_since=900.0, detail="0/3 nodes are available")
    view = WorkersView(desired=1, replicas=1, updated=1, generation_seen=True, pods=(pod,))
    [available] = [
        one for one in queue_conditions(seen(workers=view)) if one.type == "WorkersAvailable"
    ]
    assert available.reason == "Unschedulable"
    assert "0/3 nodes are available" in available.message


# --- topics --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "ready", "accepted"),
    [
        ({}, "True/Ready", "True/Accepted"),
        (
            {"resolved": None, "spec": Trouble("InvalidSpec", "x")},
            "False/QueueInvalid",
            "False/QueueInvalid",
        ),
        (
            {"resolved": Resolved(QueuePolicy(), {}, {"invoices": "older"}, {})},
            "False/NameConflict",
            "False/NameConflict",
        ),
        (
            {"resolved": Resolved(QueuePolicy(), {}, {}, {"invoices": "bad"})},
            "False/InvalidPolicy",
            "False/InvalidPolicy",
        ),
        ({"connection": MISSING}, "False/SecretMissing", "True/Accepted"),
        ({"broker": BrokerView()}, "False/Pending", "True/Accepted"),
    ],
)
def test_a_topic_is_accepted_then_programmed(
    fields: dict[str, Any], ready: str, accepted: str
) -> None:
    found = {
        one.type: f"{one.status}/{one.reason}"
        for one in topic_conditions(parse_topic(a_topic()), seen(**fields))
    }
    assert (found["Ready"], found["Accepted"]) == (ready, accepted)


def test_a_topic_of_no_queue_says_which_one_it_looks_for() -> None:
    [ready, _] = topic_conditions(parse_topic(a_topic(queue="helo")), None)
    assert ready.reason == "QueueNotFound"
    assert "TaskQueue helo" in ready.message


@pytest.mark.parametrize(
    "view",
    [
        None,
        seen(resolved=None, spec=Trouble("InvalidSpec", "x")),
        seen(resolved=Resolved(QueuePolicy(), {}, {"invoices": "older"}, {})),
    ],
    ids=["no queue", "a queue that means nothing", "a name that another has"],
)
def test_of_a_topic_that_does_not_hold_only_the_name_is_shown(view: Seen | None) -> None:
    assert topic_fields(parse_topic(a_topic()), view) == {"topicName": "invoices"}


def test_the_policy_that_holds_is_shown_with_defaults_applied() -> None:
    fields = topic_fields(parse_topic(a_topic()), seen())
    assert fields["effective"] == {
        "priority": 5,
        "weight": 10,
        "hardTimeout": "1h",
        "maxAttempts": 4,
    }
    assert fields["configRevision"] == 41


def test_how_far_a_change_has_come_is_counted_by_the_workers_beats() -> None:
    rows = [a_row("a"), a_row("b")]
    rows[0] = replace(rows[0], beat=replace(rows[0].beat, revision=41))
    what = seen(broker=replace(BROKER, stats=Stats(workers=tuple(rows))))
    assert topic_fields(parse_topic(a_topic()), what)["appliedBy"] == {"workers": 1, "of": 2}


# --- numbers -------------------------------------------------------------------------------------


def test_numbers_are_summed_over_topics_and_rounded() -> None:
    topics = {
        "a": a_topic_reading(waiting=1234, delayed=2, leased=5, dead=0, oldest=61.5, declared=True),
        "b": a_topic_reading(waiting=0, delayed=0, leased=1, dead=3),
    }
    stats = Stats(topics=topics, workers=(a_row("x", 2), fenced("y")))
    fields = queue_fields(seen(broker=replace(BROKER, stats=stats)))
    assert fields["summary"] == {"queued": 1200, "running": 6, "dead": 3, "oldestSeconds": 61}
    assert fields["topics"] == {"declared": 1, "undeclaredCount": 1, "undeclared": ["b"]}
    assert (fields["workers"]["busy"], fields["workers"]["draining"]) == (1, 1)


def test_an_unknown_number_is_left_out_and_never_shown_as_zero() -> None:
    topics = {"a": a_topic_reading(waiting=7), "b": a_topic_reading(waiting=None)}
    fields = queue_fields(seen(broker=replace(BROKER, stats=Stats(topics=topics))))
    assert "queued" not in fields["summary"]
    assert "summary" not in queue_fields(seen(broker=replace(BROKER, stats=None)))


@pytest.mark.parametrize(
    ("number", "wanted"), [(0, 0), (7, 7), (99, 99), (123, 120), (98765, 99000)]
)
def test_two_digits_are_enough(number: int, wanted: int) -> None:
    assert rounded(number) == wanted


# --- conditions ----------------------------------------------------------------------------------


def test_the_time_of_a_condition_changes_with_its_status_only() -> None:
    [first] = written([no("Ready", "A", "x")], [], 1, 1000.0)
    [second] = written([no("Ready", "B", "y")], [first], 2, 2000.0)
    [third] = written([yes("Ready", "C")], [second], 3, 3000.0)
    assert second["lastTransitionTime"] == first["lastTransitionTime"]
    assert third["lastTransitionTime"] > second["lastTransitionTime"]
    assert (second["reason"], second["observedGeneration"]) == ("B", 2)


def test_only_news_are_worth_an_event() -> None:
    [before] = written([no("Ready", "A", "x")], [], 1, 1000.0)
    assert changes([no("Ready", "A", "other words")], [before]) == []
    assert [one.reason for one in changes([no("Ready", "B", "x")], [before])] == ["B"]
    assert [one.reason for one in changes([yes("Ready", "Ready")], [before])] == ["Ready"]
    assert changes([yes("Accepted", "Accepted")], []) == [], "a good beginning is no news"


def test_the_pod_that_serves_a_queue_on_rabbitmq_is_named() -> None:
    met = BrokerView("amqp://rabbit/", "4.0.5", 1, 41, Stats(), brokerd="hello-broker-x")
    assert queue_fields(seen(broker=met))["broker"]["brokerd"] == "hello-broker-x"
    assert "brokerd" not in queue_fields(seen())["broker"]


@pytest.mark.parametrize(
    ("spec", "decision", "ready", "available"),
    [
        ({}, DECISION, "and are run", "as there is nothing to do"),
        ({}, replace(DECISION, reason="SignalLost"), "and are run", "is not known"),
        ({"workers": workers(replicas=0)}, None, "and wait", "0 are asked for"),
        ({"suspend": "HoldAndDrain"}, DECISION, "spec.suspend", "spec.suspend"),
    ],
)
def test_a_pool_without_pods_says_why(
    spec: dict[str, Any], decision: LastDecision | None, ready: str, available: str
) -> None:
    nobody = WorkersView(desired=0, generation_seen=True)
    found = seen(a_task_queue(**spec), workers=nobody, decision=decision)
    messages = {one.type: one.message for one in queue_conditions(found)}
    assert ready in messages["Ready"]
    assert available in messages["WorkersAvailable"]


def test_a_rollout_that_does_not_come_on_says_why() -> None:
    """Two old pods are ready, the new one's image is not there."""
    ill = PodView("new", trouble="ImagePull", detail="no such image")
    view = replace(READY_POOL, updated=1, pods=(PodView("old", ready=True), ill))
    messages = {one.type: one.message for one in queue_conditions(seen(workers=view))}
    assert "1 of 2 are of the present template; pod new: no such image" in messages["Reconciling"]
    stuck = replace(view, stuck="has timed out progressing")
    found = seen(workers=stuck)
    assert answers(found)["Stalled"] == "True/DeploymentStuck"
    assert "Reconciling" not in answers(found), "tools take it for progress"
    messages = {one.type: one.message for one in queue_conditions(found)}
    assert messages["Stalled"] == "has timed out progressing; pod new: no such image"
    assert "Stalled" not in answers(seen(workers=replace(READY_POOL, stuck="exceeded quota")))


def test_a_local_broker_without_a_volume_says_what_an_upgrade_costs() -> None:
    def words(local: dict[str, Any]) -> str:
        found = seen(a_task_queue(broker={"type": "Local", "local": local}))
        [one] = [one for one in queue_conditions(found) if one.type == "DevelopmentBroker"]
        return one.message

    assert "which an upgrade replaces too" in words({})
    assert "upgrade" not in words({"storage": {"size": "1Gi"}})
