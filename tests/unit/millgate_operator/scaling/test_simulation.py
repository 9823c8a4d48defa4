"""Workloads that plain autoscalers get wrong, two hours of each: nobody killed, little waste, short waits."""

from __future__ import annotations

from random import Random

from millgate_operator.scaling import ScalingPolicy
from support.simulation import Outcome, Simulation

TWO_HOURS = 7200


def arrivals(rate: float, random: Random) -> int:
    """How many arrive in a second, at random with this mean."""
    count, left = 0, random.expovariate(1.0)
    while left < rate:
        count, left = count + 1, left + random.expovariate(1.0)
    return count


def simulate(policy: ScalingPolicy, rate, takes: float, **world) -> Outcome:  # type: ignore[no-untyped-def]
    random = Random(7)
    return Simulation(policy, **world).run(
        TWO_HOURS, lambda second: [takes] * arrivals(rate(second), random)
    )


def bursts(low: float, high: float):  # type: ignore[no-untyped-def]
    """Ten quiet minutes, ten busy ones."""
    return lambda second: high if (second // 600) % 2 else low


def test_bursts_of_short_tasks() -> None:
    policy = ScalingPolicy(slots=8, maximum=40, target_latency=30.0)
    made = simulate(policy, bursts(1.0, 30.0), 2.0)
    assert made.killed == 0
    assert made.wait(0.95) < 60
    # 31 tasks/s of 2 s are on average 31 slots: four pods; twice that is what bursts may cost
    assert made.pod_hours < 20


def test_bursts_of_twenty_seconds() -> None:
    policy = ScalingPolicy(slots=4, maximum=40)
    made = simulate(policy, bursts(0.2, 4.0), 20.0)
    assert made.killed == 0
    assert made.wait(0.95) < 60
    assert made.pod_hours < 40


def test_waves_of_long_tasks_run_to_their_end() -> None:
    """Sixty tasks of ten minutes every half hour: the pods are busy when the queue is empty."""
    policy = ScalingPolicy(slots=1, maximum=60)
    made = Simulation(policy).run(
        TWO_HOURS, lambda second: [600.0] * 60 if second % 1800 == 0 else []
    )
    assert made.killed == 0
    assert made.wait(0.95) < 60
    needed = 4 * 60 * 600 / 3600
    assert made.pod_hours < 1.6 * needed
    assert made.most_pods == 60


def test_a_trickle_of_long_tasks_is_not_interrupted() -> None:
    policy = ScalingPolicy(slots=1, maximum=40)
    made = simulate(policy, lambda _: 1 / 70, 600.0)
    assert made.killed == 0
    assert made.wait(0.95) <= 30
    assert made.pod_hours < 25


def test_a_narrow_lane_gets_the_pods_it_can_use_and_not_one_for_each_task_that_waits() -> None:
    """2,000 tasks of 10 s, five at once: two pods of four slots, not forty."""
    policy = ScalingPolicy(slots=4, maximum=40, limits={"default": 5})
    made = Simulation(policy, limit=5).run(
        TWO_HOURS, lambda second: [10.0] * 2000 if second == 0 else []
    )
    assert made.killed == 0
    assert made.most_pods == 2
    assert made.pod_hours < 4


def test_a_steady_flow_with_an_empty_queue_does_not_make_the_pool_bounce() -> None:
    policy = ScalingPolicy(slots=4, maximum=40)
    made = simulate(policy, lambda _: 8.0, 3.0)
    assert made.killed == 0
    assert made.wait(0.95) <= 5
    assert made.pod_hours < 23  # six pods would do if arrivals were not random: 12
    assert made.reversals <= 34  # each is an idle pod's coming or going


def test_when_all_is_done_nothing_is_left() -> None:
    policy = ScalingPolicy(slots=4, maximum=40)
    made = Simulation(policy).run(3600, lambda second: [5.0] * 500 if second == 10 else [])
    assert made.pods_at_end == 0
    assert len(made.waits) == 500
