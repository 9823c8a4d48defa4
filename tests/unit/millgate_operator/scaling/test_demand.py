"""The slots that the work needs, from one reading and what was learnt before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millgate_operator.scaling import ScalingPolicy
from millgate_operator.scaling.demand import Demand, demand
from millgate_operator.scaling.signal import Signal, TopicSignal
from support.pools import a_topic_reading

POLICY = ScalingPolicy(slots=1, maximum=1000, headroom=0.0, target_latency=10.0)
#: Runs take a second; nothing new has come for long.
SECOND = TopicSignal(1000, 1000, busy=4.0, end_rate=4.0)


def of(
    learnt: TopicSignal | None = SECOND, policy: ScalingPolicy = POLICY, **fields: Any
) -> Demand:
    signal = Signal(0.0, {} if learnt is None else {"t": learnt})
    return demand(policy, signal, {"t": a_topic_reading(**fields)}, 20.0)


def test_a_backlog_is_worked_off_within_the_latency_that_is_aimed_at() -> None:
    assert of(claimable=100).pods == 10
    assert of(claimable=101).pods == 11


@pytest.mark.parametrize(("oldest", "pods"), [(None, 10), (10.0, 10), (10.1, 13)])
def test_what_waits_longer_gets_a_quarter_more(oldest: float | None, pods: int) -> None:
    assert of(claimable=100, oldest=oldest).pods == pods


def test_of_tasks_that_nobody_has_seen_run_each_wants_a_slot() -> None:
    assert of(None, claimable=7).pods == 7
    assert of(None, claimable=7, leased=2).pods == 9


def test_one_task_wants_one_pod_however_short_it_is() -> None:
    short = replace(SECOND, busy=0.001, end_rate=1000.0)
    assert of(short, claimable=1).pods == 1
    assert of(short).pods == 0


def test_a_rate_fills_the_slots_that_it_will_keep_busy() -> None:
    flow = replace(SECOND, fast=5.0, slow=3.0)
    assert of(flow, leased=2).pods == 5
    assert of(replace(flow, fast=2.0), leased=2).pods == 3
    assert of(replace(flow, fast=0.0)).pods == 0  # nothing is there, and nothing came lately


def test_long_tasks_are_counted_as_they_run_and_those_that_come_until_a_pod_could_start() -> None:
    endless = TopicSignal(10, 0, fast=9.0, slow=0.5, busy=10.0)
    assert of(endless, leased=10).terms.forecast == 20.0
    assert of(endless, leased=10).pods == 20


def test_headroom_is_the_root_of_the_need() -> None:
    policy = replace(POLICY, headroom=1.0)
    assert of(None, policy, claimable=100).pods == 100, "a slot without a task is waste"
    assert of(SECOND, policy, claimable=1000).pods == 110
    assert of(SECOND, policy, claimable=1000).terms.headroom == pytest.approx(10.0)


def test_limits_cap_it() -> None:
    assert of(None, replace(POLICY, limits={"t": 3}), claimable=50).pods == 3
    assert of(None, replace(POLICY, queue_limit=4), claimable=50).pods == 4
    assert of(None, replace(POLICY, slots=8), claimable=50).pods == 7
