"""What a task's settings mean, on the wire and for one message."""

from __future__ import annotations

from typing import Any, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.cron import Misfire, Schedule
from millgate.errors import InvalidInput, NotDecodable
from millgate.message import Options
from millgate.queues import TopicPolicy
from millgate.retry import Backoff, BackoffType, Jitter, RetryPolicy
from millgate.rules import check
from millgate.spec import TaskSettings, TaskSpec, TaskWire, backoff_of


def parsed(**settings: Any) -> TaskSpec:
    return TaskSpec.parse(cast("TaskSettings", settings), name="work", function=print)


def test_settings_are_parsed() -> None:
    spec = parsed(retries=3, timeout="10m", soft_timeout=9, expires="1h", result_ttl=0, priority=9)
    assert (spec.attempts, spec.hard_timeout, spec.soft_timeout) == (4, 600.0, 9.0)
    assert (spec.expires, spec.result_ttl, spec.priority) == (3600.0, 0.0, 9)


def test_what_is_left_out_is_left_to_the_topic() -> None:
    spec = parsed()
    assert (spec.attempts, spec.hard_timeout, spec.backoff, spec.schedule) == (None,) * 4


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"retires": 3}, "knows no retires; it takes name, topic, retries"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"timeout": 0}, "timeout=0: use more than 0"),
        ({"expires": -1}, "expires=-1"),
        ({"retries": -1}, "retries=-1"),
        ({"soft_timeout": 10, "timeout": 10}, "soft_timeout 10s is not below timeout 10s"),
        ({"backoff": "Cubic"}, "backoff"),
        ({"backoff": {"base": 2}}, "backoff"),
        ({"cron": "* * *"}, "cron"),
        ({"priority": 50}, "priority=50: use 0 to 9"),
        ({"priority": "high"}, "priority='high': use 0 to 9"),
        ({"key": 5}, "key=5: give a text like '{customer}', or a function"),
        ({"key": True}, "key=True: give a text"),
        ({"unique": 5}, "unique=5: give a text"),
        ({"unique_for": "1h"}, "give unique=True or a rule too"),
        ({"timezone": "Europe/Berlin"}, "give cron=… too"),
        ({"cron": "@daily", "misfire": "never"}, "misfire 'Never': use Skip, Once, All"),
        ({"cron": "@daily", "timezone": "Mars"}, "timezone"),
    ],
)
def test_settings_that_cannot_hold_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(**settings)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 101, "1a"])
def test_a_name_that_cannot_travel_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="task name"):
        TaskSpec.parse({}, name=name, function=print)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("exponential", Backoff()),
        ("Fixed", Backoff(BackoffType.FIXED)),
        ("none", Backoff(BackoffType.FIXED, initial=0.0, jitter=Jitter.NONE)),
        (
            {"initial": "1s", "max": "1m", "jitter": "none"},
            Backoff(initial=1.0, max=60.0, jitter=Jitter.NONE),
        ),
        (Backoff(initial=7), Backoff(initial=7)),
    ],
)
def test_a_backoff_is_written_in_several_ways(value: Any, expected: Backoff) -> None:
    assert backoff_of(value) == expected


# --- the wire ------------------------------------------------------------------------------------

seconds = st.none() | st.floats(0.1, 1e6)
schedules = st.none() | st.builds(
    Schedule,
    st.sampled_from(["@daily", "* * * * *"]),
    st.sampled_from(["UTC", "Europe/Berlin"]),
    st.sampled_from(Misfire),
    st.integers(1, 100),
)
wires = st.builds(
    TaskWire,
    name=st.text(min_size=1),
    topic=st.text(min_size=1),
    is_async=st.booleans(),
    soft_timeout=seconds,
    hard_timeout=seconds,
    attempts=st.none() | st.integers(1, 100),
    backoff=st.none() | st.just({"type": "Fixed", "initial": 1.0}),
    result_ttl=seconds,
    expires=seconds,
    priority=st.integers(0, 9),
    unique_for=seconds,
    slot_key=st.none() | st.text(),
    slot_unique=st.none() | st.text(),
    schedule=schedules,
)


@given(wires)
def test_a_task_survives_the_wire(wire: TaskWire) -> None:
    assert TaskWire.from_wire(msgpack.unpackb(msgpack.packb(wire.wire()))) == wire


def test_a_spec_says_on_the_wire_what_a_supervisor_needs() -> None:
    spec = parsed(retries=1, backoff="Fixed", cron="@daily", misfire="all", catch_up=5)
    wire = TaskWire.from_wire(spec.wire())
    assert wire.schedule == Schedule("@daily", misfire=Misfire.ALL, catch_up=5)
    assert wire.retry_policy(Options(), TopicPolicy("t")) == RetryPolicy(
        2, backoff=Backoff(BackoffType.FIXED)
    )


@pytest.mark.parametrize("values", [None, [], [1], "x", ["a"] * 12, {"name": "a"}])
def test_what_is_no_task_is_refused(values: Any) -> None:
    with pytest.raises(NotDecodable):
        TaskWire.from_wire(values)


# --- what holds for one message ------------------------------------------------------------------

TOPIC = TopicPolicy(
    "t",
    retry=RetryPolicy(attempts=7, losses=3, interruptions=8),
    soft_timeout=50.0,
    hard_timeout=100.0,
)


def test_the_send_comes_before_the_task_and_the_task_before_the_topic() -> None:
    task = parsed(retries=1, backoff={"initial": 5})
    assert task.retry_policy(Options(attempts=9, backoff={"initial": 8.0}), TOPIC) == RetryPolicy(
        9, 3, 8, Backoff(initial=8.0)
    )
    assert task.retry_policy(Options(), TOPIC) == RetryPolicy(2, 3, 8, Backoff(initial=5.0))
    assert parsed().retry_policy(Options(), TOPIC) == TOPIC.retry


@pytest.mark.parametrize(
    ("options", "settings", "expected"),
    [
        (Options(), {}, (50.0, 100.0)),
        (Options(), {"timeout": 200}, (50.0, 200.0)),
        (Options(hard_timeout=60.0, soft_timeout=5.0), {"timeout": 200}, (5.0, 60.0)),
        # The topic's soft timeout would come too late.
        (Options(hard_timeout=10.0), {}, (None, 10.0)),
    ],
)
def test_timeouts_are_resolved(
    options: Options, settings: dict[str, Any], expected: tuple[float | None, float]
) -> None:
    assert parsed(**settings).timeouts(options, TOPIC) == expected


def test_the_message_of_a_slot_has_the_slot_in_its_id() -> None:
    wire = TaskWire("work", topic="t", expires=60.0, priority=7)
    message = wire.scheduled(1_800_000_000.0)
    check(message)
    assert (message.id, message.topic, message.task, message.body) == (
        "cron:work:1800000000",
        "t",
        "work",
        b"[[],{}]",
    )
    assert (message.expires_in, message.priority) == (60.0, 7)


def test_the_longest_name_still_makes_an_id() -> None:
    check(TaskWire("a" * 100).scheduled(1e11))
