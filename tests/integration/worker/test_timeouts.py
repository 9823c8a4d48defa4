"""Soft and hard timeouts, and cancellation of what runs."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.message import Options
from support.bench import every_broker, every_broker_and_memory
from support.wait import eventually


def test_a_soft_timeout_is_raised_in_a_blocking_task_which_may_clean_up(bench: Any) -> None:
    sent = bench.send("overtime", 30)
    bench.ready()
    assert bench.result(sent, timeout=10) == "cleaned up"


def test_a_soft_timeout_cancels_a_coroutine(bench: Any) -> None:
    sent = bench.send("overtime_async", 30)
    bench.ready()
    assert bench.result(sent, timeout=10) == "cleaned up"


@pytest.mark.parametrize("slots", [1, 4])
def test_a_soft_timeout_is_raised_in_a_coroutine_that_blocks_its_loop_and_in_no_other(
    bench: Any, slots: int
) -> None:
    beside = bench.send_many("work_async", [(str(bench.journal), 3.0)] * (slots - 1))
    worker = bench.ready(children=1, slots=slots)
    bench.until_noted("start", slots - 1)
    sent = bench.send("overtime_blocking", 30)
    assert bench.result(sent, timeout=10) == "cleaned up"
    assert {bench.state(one).attempt for one in beside if bench.result(one)} <= {1}
    assert worker.events("child ended") == []


def test_a_soft_timeout_leaves_a_task_alone_that_is_in_time(bench: Any) -> None:
    ids = bench.send_many("overtime", [(0.0,)] * 30)
    bench.ready()
    assert {bench.result(sent) for sent in ids} == {"slept"}


@every_broker_and_memory
def test_a_hard_timeout_ends_a_task_that_listens_to_nothing_and_charges_it_alone(
    bench: Any,
) -> None:
    bench.configure()
    stubborn = bench.send(
        "stubborn",
        str(bench.journal),
        options=Options(attempts=2, backoff={"initial": 0.01, "max": 0.01}),
    )
    others = bench.send_many("work", [(str(bench.journal), 0.2)] * 6)
    worker = bench.ready()
    state = bench.end_of(stubborn)
    assert (state.state, state.reason, state.attempt) == ("failed", "TimedOut", 2)
    assert [bench.state(sent).attempt for sent in others if bench.result(sent)] == [1] * 6
    assert {line["reason"] for line in worker.events("child ended")} == {"HardTimeout"}
    eventually(lambda: len([c for c in worker.status()["children"] if c["phase"] == "ready"]) == 2)


@every_broker
def test_a_lease_is_kept_while_nothing_else_can_run_in_the_child(bench: Any) -> None:
    bench.configure(lease=1.0)
    sent = bench.send("hold_the_interpreter", str(bench.journal), 4.0)
    worker = bench.ready(children=1)
    bench.until_noted("start")
    bench.ready(children=1)  # hungry
    assert bench.result(sent) == 1
    assert len(bench.notes("start")) == 1
    assert worker.events("child ended") == []


def test_the_send_decides_about_timeouts_before_the_task_and_the_topic(bench: Any) -> None:
    bench.configure(hard_timeout=60.0)
    sent = bench.send(
        "work", str(bench.journal), 30.0, options=Options(hard_timeout=0.5, attempts=1)
    )
    bench.ready()
    assert bench.end_of(sent, timeout=10).reason == "TimedOut"


def test_a_cancelled_run_is_told_and_may_end_by_itself(bench: Any) -> None:
    bench.configure(lease=2.0)
    sent = bench.send("until_cancelled", str(bench.journal))
    bench.ready()
    bench.until_noted("start")
    assert bench.broker.cancel([sent]) == ["signalled"]
    bench.until_noted("cancelled", timeout=5)
    assert bench.end_of(sent).state in ("cancelled", "succeeded")


@every_broker_and_memory
def test_a_cancelled_run_that_does_not_listen_is_stopped(bench: Any) -> None:
    bench.configure(lease=2.0)
    sent = bench.send("work", str(bench.journal), 60.0)
    worker = bench.ready(children=1)
    bench.until_noted("start")
    bench.broker.cancel([sent])
    assert bench.end_of(sent, timeout=15).state == "cancelled"
    assert bench.notes("end") == []
    assert [line["reason"] for line in worker.events("child ended")] == ["Cancelled"]
    assert bench.result(bench.send("add", 1, 1)) == 2


def test_a_cancelled_coroutine_ends_at_once(bench: Any) -> None:
    bench.configure(lease=2.0)
    sent = bench.send("work_async", str(bench.journal), 60.0)
    worker = bench.ready()
    bench.until_noted("start")
    bench.broker.cancel([sent])
    assert bench.end_of(sent, timeout=5).state == "cancelled"
    assert worker.events("child ended") == []
