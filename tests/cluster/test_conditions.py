"""What only the operator can see becomes a condition and an Event within five seconds, and heals by itself."""

from __future__ import annotations

from urllib.parse import urlsplit

from support.manifests import a_task_queue, a_topic, workers
from support.operator import Operator, Place
from support.postgres import database_url, open_queue
from support.wait import eventually

SOON = 5.0


def on_postgres(name: str = "hello", **spec: object) -> dict:
    broker = {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}}
    return a_task_queue(name, **({"broker": broker} | spec))


def test_a_missing_secret_is_said_within_five_seconds_and_heals(place: Place) -> None:
    place.apply(on_postgres())
    message, took = place.becomes("taskqueue", "hello", "Ready", "False/SecretMissing", SOON)
    assert took < SOON
    assert "Secret db is not there; create it in namespace" in message
    assert place.condition("taskqueue", "hello", "Stalled")[:2] == ("True", "SecretMissing")
    eventually(lambda: "SecretMissing" in place.events("hello"), SOON)
    place.secret("db", uri=database_url())
    place.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected", SOON + 1)
    assert place.condition("taskqueue", "hello", "Stalled")[0] == ""


def test_a_secret_without_the_key_names_those_it_has(place: Place) -> None:
    place.secret("db", url="x", password="y")
    place.apply(on_postgres())
    message, _ = place.becomes("taskqueue", "hello", "Ready", "False/SecretInvalid", SOON)
    assert "has no key uri (its keys: password, url)" in message


def test_a_url_of_something_else_is_said_without_showing_it(place: Place) -> None:
    place.secret("db", uri="mysql://root:hunter2@db/x")
    place.apply(on_postgres())
    message, _ = place.becomes("taskqueue", "hello", "Ready", "False/SecretInvalid", SOON)
    assert "write postgresql://" in message
    assert "hunter2" not in message


def test_a_wrong_password_is_said_and_the_right_one_is_taken_up(
    place: Place, operator: Operator
) -> None:
    right = database_url()
    parts = urlsplit(right)
    wrong = parts._replace(
        netloc=f"{parts.username}:hunter2@{parts.hostname}:{parts.port}"
    ).geturl()
    place.secret("db", uri=wrong)
    place.apply(on_postgres())
    message, took = place.becomes("taskqueue", "hello", "Ready", "False/AuthFailed", SOON)
    assert took < SOON
    eventually(lambda: "AuthFailed" in place.events("hello"), SOON)
    for shown in (message, operator.text(), place.kubectl("get", "events", "-o", "json")):
        assert "hunter2" not in shown
    place.secret("db", uri=right)
    place.becomes("taskqueue", "hello", "BrokerConnected", "True/Connected", 15)


def test_a_broker_that_is_not_there_is_said_and_the_objects_are_made_all_the_same(
    place: Place,
) -> None:
    place.secret("db", uri="postgresql://user:secret@127.0.0.1:1/db")
    place.apply(on_postgres(), a_topic())
    message, _ = place.becomes("taskqueue", "hello", "Ready", "False/Unreachable", 10)
    assert "secret" not in message
    assert place.condition("taskqueue", "hello", "Stalled")[0] == ""
    assert place.condition("taskqueue", "hello", "Reconciling")[0] == "True"
    place.becomes("topic", "invoices", "Programmed", "False/Unreachable")
    place.there("deployment", "hello-workers")


def test_a_host_that_only_the_workers_find_is_told_how_to_be_written(place: Place) -> None:
    place.secret("db", uri="postgresql://user:hunter2@database/db")
    place.apply(on_postgres())
    message, _ = place.becomes("taskqueue", "hello", "BrokerConnected", "False/Unreachable", 15)
    assert f"write database.{place.namespace}.svc in the Secret" in message
    assert "hunter2" not in message


def test_a_topic_without_a_queue_is_said_and_heals_in_any_order(place: Place) -> None:
    place.apply(a_topic())
    message, took = place.becomes("topic", "invoices", "Accepted", "False/QueueNotFound", SOON)
    assert took < SOON
    assert "there is no TaskQueue hello in namespace" in message
    eventually(lambda: "QueueNotFound" in place.events("invoices"), SOON)
    place.secret("db", uri=database_url())
    place.apply(on_postgres())
    place.becomes("topic", "invoices", "Ready", "True/Ready", SOON)
    place.kubectl("delete", "taskqueue", "hello")
    place.becomes("topic", "invoices", "Accepted", "False/QueueNotFound", SOON)


def test_of_two_topics_of_one_name_the_older_holds_and_the_other_says_so(place: Place) -> None:
    place.secret("db", uri=database_url())
    place.apply(on_postgres(), a_topic("first", topicName="invoices"))
    place.becomes("topic", "first", "Ready", "True/Ready")
    eventually(
        lambda: place.there("topic", "first")["metadata"]["creationTimestamp"] < _now(place), 5
    )
    place.apply(a_topic("second", topicName="invoices", priority=9))
    message, _ = place.becomes("topic", "second", "Ready", "False/NameConflict", SOON)
    assert "Topic first is older" in message
    assert place.condition("topic", "first", "Ready")[0] == "True"
    place.kubectl("delete", "topic", "first")
    place.becomes("topic", "second", "Ready", "True/Ready", SOON)


def _now(place: Place) -> str:
    """The API server's time, to the second, by the youngest object."""
    place.kubectl("delete", "configmap", "clock", "--ignore-not-found")
    place.kubectl("create", "configmap", "clock")
    return place.there("configmap", "clock")["metadata"]["creationTimestamp"]


def test_a_topic_that_contradicts_the_defaults_keeps_its_last_good_policy(place: Place) -> None:
    place.secret("db", uri=database_url())
    place.apply(on_postgres(), a_topic(timeout={"soft": "10m"}, priority=7))
    place.becomes("topic", "invoices", "Ready", "True/Ready")
    place.patch("taskqueue", "hello", {"spec": {"defaults": {"timeout": {"hard": "5m"}}}})
    message, _ = place.becomes("topic", "invoices", "Ready", "False/InvalidPolicy", SOON)
    assert "soft_timeout is below hard_timeout" in message
    broker = open_queue(f"{place.namespace}.hello")
    try:
        assert broker.configuration().topics["invoices"].priority == 7
    finally:
        broker.close()


def test_two_queues_in_one_place_are_one_too_many(place: Place) -> None:
    place.secret("db", uri=database_url())
    prefix = place.namespace
    broker = {"type": "Postgres", "connection": {"secretRef": {"name": "db"}}, "prefix": prefix}
    place.apply(on_postgres("older", broker=broker))
    place.becomes("taskqueue", "older", "BrokerConnected", "True/Connected")
    eventually(
        lambda: place.there("taskqueue", "older")["metadata"]["creationTimestamp"] < _now(place), 5
    )
    place.apply(on_postgres("younger", broker=broker))
    message, _ = place.becomes("taskqueue", "younger", "Ready", "False/PrefixConflict", SOON)
    assert f"TaskQueue {place.namespace}/older is older" in message
    place.kubectl("delete", "taskqueue", "older")
    place.becomes("taskqueue", "younger", "BrokerConnected", "True/Connected", 15)


def test_a_topic_that_no_worker_takes_says_so(place: Place) -> None:
    place.secret("db", uri=database_url())
    place.apply(on_postgres(workers=workers(topics={"exclude": ["invoices"]})), a_topic())
    message, _ = place.becomes("topic", "invoices", "Served", "False/NotServed")
    assert "nobody runs its tasks" in message


def test_status_says_which_generation_it_is_about(place: Place) -> None:
    place.secret("db", uri=database_url())
    place.apply(on_postgres(workers=workers(replicas=0)))
    place.becomes("taskqueue", "hello", "Ready", "True/Ready")
    place.patch("taskqueue", "hello", {"spec": {"limits": {"maxInFlight": 3}}})

    def settled() -> bool:
        made = place.there("taskqueue", "hello")
        generation = made["metadata"]["generation"]
        marks = {one["observedGeneration"] for one in made["status"]["conditions"]}
        return made["status"]["observedGeneration"] == generation == 2 and marks == {2}

    eventually(settled, 10)
    place.kubectl("wait", "--for=condition=Ready", "taskqueue/hello", "--timeout=5s")


def test_what_waits_and_what_runs_is_shown(place: Place) -> None:
    place.secret("db", uri=database_url())
    place.apply(on_postgres(workers=workers(replicas=0)), a_topic())
    place.becomes("taskqueue", "hello", "Ready", "True/Ready")
    broker = open_queue(f"{place.namespace}.hello")
    try:
        from support.builders import some_messages

        broker.publish([*some_messages(123, topic="invoices"), *some_messages(4, topic="stray")])

        def shown() -> bool:
            queue, topic = place.there("taskqueue", "hello"), place.there("topic", "invoices")
            summary = queue["status"].get("summary", {})
            return (
                summary.get("queued") == 130
                and queue["status"]["topics"]["undeclared"] == ["stray"]
                and topic["status"]["summary"]["queued"] == 120
            )

        eventually(shown, 45, every=0.5)
    finally:
        broker.close()
