"""How many pods, and what is done about it, from tables of readings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millgate.queues import Subscription
from millgate_operator.scaling import (
    Decision,
    Memory,
    Pool,
    Reason,
    ScalingPolicy,
    confirm,
    decide,
)
from support.pools import (
    a_pending_pod,
    a_pod,
    a_pool,
    a_row,
    a_topic_reading,
    fenced,
    readings,
    some_work,
)

POLICY = ScalingPolicy(slots=1, maximum=40, headroom=0.0, stabilization=60.0)


class Story:
    """Decisions one after another, with a clock."""

    def __init__(self, **policy: Any) -> None:
        self.policy = replace(POLICY, **policy)
        self.memory, self.now = Memory(), 1000.0

    def tell(self, stats: Any, pool: Pool | None, passed: float = 5.0) -> Decision:
        self.now += passed
        decision, self.memory = decide(self.policy, self.memory, self.now, stats, pool)
        return decision

    def settled(self, stats: Any, pool: Pool | None) -> Decision:
        """The same readings for so long that no window remembers anything else."""
        for _ in range(200):
            decision = self.tell(stats, pool)
        return decision


def test_from_zero_it_goes_straight_to_what_the_backlog_needs() -> None:
    decision = Story().tell(readings(some_work(30)), a_pool())
    assert (decision.desired, decision.replicas, decision.reason) == (30, 30, Reason.BACKLOG)


def test_one_task_wakes_one_pod() -> None:
    assert Story(slots=8).tell(readings(some_work(1)), a_pool()).replicas == 1


def test_the_most_that_is_allowed_is_not_exceeded_and_said() -> None:
    decision = Story(maximum=10).tell(readings(some_work(500)), a_pool())
    assert (decision.replicas, decision.limited_by) == (10, "max")


def test_a_lane_with_a_limit_needs_no_more_pods_than_the_limit() -> None:
    """2,000 tasks wait, 5 may run: the broker says that 5 can be claimed."""
    work = {"narrow": a_topic_reading(waiting=2000, claimable=5)}
    decision = Story(slots=2, limits={"narrow": 5}).tell(readings(work), a_pool())
    assert decision.replicas == 3


def test_what_runs_and_what_can_be_claimed_stay_under_the_lanes_limit() -> None:
    pods = [a_pod(f"p{n}") for n in range(3)]
    rows = [a_row(f"p{n}", 1) for n in range(3)]
    work = {"narrow": a_topic_reading(waiting=900, claimable=2, leased=3, started=3)}
    story = Story(limits={"narrow": 5})
    assert story.tell(readings(work, *rows), a_pool(*pods)).replicas == 5


def test_the_queues_own_limit_counts_for_all_topics_together() -> None:
    work = {name: a_topic_reading(claimable=50) for name in ("a", "b")}
    assert Story(queue_limit=12).tell(readings(work), a_pool()).replicas == 12


def test_topics_of_other_pools_are_not_counted() -> None:
    work = {"mine": a_topic_reading(claimable=2), "video-1": a_topic_reading(claimable=50)}
    story = Story(subscription=Subscription(exclude=("video-*",)))
    assert story.tell(readings(work), a_pool()).replicas == 2


def test_growth_is_bounded_per_period_once_there_are_pods() -> None:
    pods = [a_pod("p0")]
    story = Story(up_pods=4, up_percent=100, up_period=15.0)
    first = story.tell(readings(some_work(100), a_row("p0")), a_pool(*pods))
    assert (first.replicas, first.limited_by) == (5, "step")
    again = story.tell(readings(some_work(100), a_row("p0")), a_pool(*pods, replicas=5))
    assert again.replicas is None
    later = story.tell(
        readings(some_work(100), a_row("p0")), a_pool(*pods, replicas=5), passed=15.0
    )
    assert later.replicas == 10


# --- unknown -------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["claimable", "leased", "started", "completed"])
def test_an_unknown_number_changes_nothing(missing: str) -> None:
    work = some_work(100)
    work["default"] = replace(work["default"], **{missing: None})
    decision = Story().settled(readings(work), a_pool(a_pod("p0")))
    assert decision == Decision(None, Reason.SIGNAL_LOST)


def test_a_broker_that_does_not_answer_changes_nothing() -> None:
    pods = [a_pod(f"p{n}") for n in range(8)]
    assert Story().settled(None, a_pool(*pods)) == Decision(None, Reason.SIGNAL_LOST)


def test_a_cluster_that_does_not_answer_changes_nothing() -> None:
    assert Story().tell(readings(some_work(5)), None).replicas is None


def test_the_first_decisions_after_a_start_take_nothing_away() -> None:
    """A new operator has seen no window yet; 40 idle pods may have been busy a moment ago."""
    pods = [a_pod(f"p{n}") for n in range(40)]
    rows = [a_row(f"p{n}") for n in range(40)]
    story = Story()
    for _ in range(11):
        decision = story.tell(readings({}, *rows), a_pool(*pods))
        assert decision.fence == ()
    assert decision.desired == 40


# --- shrinking -----------------------------------------------------------------------------------


def idle_pool(count: int) -> tuple[list[Any], Pool]:
    return [a_row(f"p{n}") for n in range(count)], a_pool(*[a_pod(f"p{n}") for n in range(count)])


def test_an_idle_pool_is_emptied_a_quarter_at_a_time() -> None:
    rows, pool = idle_pool(8)
    decision = Story(minimum=1).settled(readings({}, *rows), pool)
    assert (decision.desired, len(decision.fence), decision.replicas) == (1, 2, None)


def test_idle_workers_are_chosen_before_busy_ones() -> None:
    rows = [a_row("p0", 1), a_row("p1"), a_row("p2", 1), a_row("p3")]
    pods = [a_pod(f"p{n}") for n in range(4)]
    story = Story(in_percent=50)
    decision = story.settled(readings(some_work(leased=2, started=2), *rows), a_pool(*pods))
    assert set(decision.fence) == {"p1", "p3"}


def test_a_fenced_worker_that_still_works_stays() -> None:
    rows = [a_row("p0", 1), fenced("p1", busy=1)]
    decision = Story().settled(
        readings(some_work(leased=1), *rows), a_pool(a_pod("p0"), a_pod("p1"))
    )
    assert decision.remove == ()
    assert decision.replicas is None


def test_a_drained_worker_is_marked_then_waited_for_then_removed() -> None:
    rows = [a_row("p0", 1), fenced("p1")]
    stats = readings(some_work(leased=1), *rows)
    ready = a_pool(a_pod("p0"), a_pod("p1"))
    first = Story().settled(stats, ready)
    assert (first.mark, first.remove) == (("p1",), ())
    marked = a_pool(a_pod("p0"), a_pod("p1", marked=True))
    second = Story().settled(stats, marked)
    assert (second.mark, second.remove) == ((), ())
    gone = a_pool(a_pod("p0"), a_pod("p1", marked=True, ready=False))
    third = Story().settled(stats, gone)
    assert (third.remove, third.replicas) == (("p1",), 1)


def test_a_fence_that_is_about_to_end_is_renewed_before_it_is_relied_on() -> None:
    rows = [a_row("p0", 1), fenced("p1", left=20.0)]
    pods = a_pool(a_pod("p0"), a_pod("p1", marked=True, ready=False))
    decision = Story().settled(readings(some_work(leased=1), *rows), pods)
    assert decision.remove == ()
    assert "p1" in decision.fence


def test_demand_takes_back_what_is_being_emptied_before_it_asks_for_new_pods() -> None:
    rows = [a_row("p0", 1), fenced("p1"), fenced("p2", busy=1)]
    pods = a_pool(*[a_pod(f"p{n}") for n in range(3)])
    decision = Story().settled(readings(some_work(1, leased=2, started=2), *rows), pods)
    assert decision.unfence == ("p2", "p1")
    assert decision.replicas is None


def test_a_pod_that_waits_for_a_node_goes_first_and_needs_no_fence() -> None:
    rows = [a_row("p0", 1)]
    pods = a_pool(a_pod("p0"), a_pending_pod("p1"), a_pending_pod("p2"))
    decision = Story().settled(readings(some_work(leased=1, started=1), *rows), pods)
    assert set(decision.remove) == {"p1", "p2"}
    assert decision.replicas == 1
    assert decision.fence == ()


def test_nothing_is_removed_while_a_pod_may_be_mistaken_for_an_empty_one() -> None:
    """p0 works but its probe failed: a ReplicaSet could take it in place of p1."""
    rows = [a_row("p0", 1), fenced("p1")]
    pods = a_pool(a_pod("p0", ready=False), a_pod("p1", ready=False, marked=True))
    assert Story().settled(readings(some_work(leased=1), *rows), pods).remove == ()


def test_nothing_is_removed_while_a_pod_starts_that_the_broker_does_not_know_yet() -> None:
    rows = [a_row("p0", 1), fenced("p1")]
    pods = a_pool(
        a_pod("p0"), a_pod("p1", ready=False, marked=True), a_pod("p2", ready=False, age=3.0)
    )
    assert Story().settled(readings(some_work(leased=1), *rows), pods).remove == ()


def test_a_pod_that_crashes_again_and_again_does_not_hold_up_the_others() -> None:
    rows = [a_row("p0", 1), fenced("p1")]
    pods = a_pool(
        a_pod("p0"), a_pod("p1", ready=False, marked=True), a_pod("p2", ready=False, failing=True)
    )
    assert Story().settled(readings(some_work(leased=1), *rows), pods).remove == ("p1", "p2")


def test_a_worker_that_runs_beside_a_crashing_container_may_be_mistaken_too() -> None:
    rows = [a_row("p0", 1), fenced("p1"), a_row("p2", 1)]
    pods = a_pool(
        a_pod("p0"),
        a_pod("p1", ready=False, marked=True),
        a_pod("p2", ready=False, failing=True, running=True),
    )
    assert Story().settled(readings(some_work(leased=2), *rows), pods).remove == ()


def test_nothing_shrinks_while_pods_are_being_replaced() -> None:
    rows, pool = idle_pool(8)
    decision = Story().settled(readings({}, *rows), replace(pool, rollout=True))
    assert (decision.fence, decision.remove, decision.limited_by) == ((), (), Reason.ROLLOUT)


def test_pods_that_are_leaving_already_do_not_count() -> None:
    rows = [a_row("p0", 1)]
    leaving = [a_pod(f"t{n}", terminating=True) for n in range(9)]
    pool = a_pool(a_pod("p0"), *leaving, replicas=1)
    decision = Story().settled(readings(some_work(leased=1, started=1), *rows), pool)
    assert (decision.desired, decision.replicas, decision.fence) == (1, None, ())


def test_a_pause_of_scale_in_gives_back_what_was_being_emptied() -> None:
    rows = [fenced("p0"), a_row("p1")]
    decision = Story(in_paused=True).settled(readings({}, *rows), a_pool(a_pod("p0"), a_pod("p1")))
    assert (decision.unfence, decision.fence, decision.limited_by) == (("p0",), (), Reason.PAUSED)


def test_it_shrinks_only_to_the_most_that_was_needed_in_the_window() -> None:
    rows = [a_row(f"p{n}", 1) for n in range(4)]
    pool = a_pool(*[a_pod(f"p{n}") for n in range(4)])
    story = Story()
    story.settled(readings(some_work(leased=4, started=4), *rows), pool)
    idle = [a_row(f"p{n}") for n in range(4)]
    quiet = readings(some_work(leased=1, started=4, completed=3), *idle)
    first = story.tell(quiet, pool)
    assert (first.desired, first.fence) == (4, ())
    assert first.reason in (Reason.STABILIZING, Reason.FORECAST)


# --- zero ----------------------------------------------------------------------------------------


def test_the_last_pod_waits_until_there_was_no_work_for_long_enough() -> None:
    story = Story(idle_after=300.0)
    busy = readings(some_work(leased=1, started=1), a_row("p0", 1))
    pool = a_pool(a_pod("p0"))
    story.tell(busy, pool)
    quiet = readings(some_work(started=1, completed=1), a_row("p0"))
    for _ in range(59):
        decision = story.tell(quiet, pool)
        assert decision.fence == ()
    assert decision.reason is Reason.IDLE
    assert story.tell(quiet, pool, passed=10.0).fence == ("p0",)


def test_work_that_is_due_before_a_pod_could_start_keeps_one() -> None:
    story = Story()
    soon = readings({}, a_row("p0"), next_due=20.0)
    decision = story.settled(soon, a_pool(a_pod("p0")))
    assert (decision.desired, decision.reason, decision.fence) == (1, Reason.DUE_SOON, ())


def test_a_pool_at_zero_starts_in_time_for_work_that_is_due_soon() -> None:
    decision = Story().settled(readings({}, next_due=20.0), a_pool())
    assert decision.replicas == 1


@pytest.mark.parametrize(
    ("topics", "wanted"),
    [
        ({"mine": {"delayed": 1}, "video": {}}, 1),
        ({"mine": {"delayed": None}, "video": {"delayed": 1}}, 1),
        ({"mine": {}, "video": {"delayed": 1}}, None),
        ({"mine": {"delayed": 1, "paused": True}}, None),
    ],
)
def test_a_pool_at_zero_does_not_start_for_what_it_could_not_take(
    topics: dict[str, dict[str, Any]], wanted: int | None
) -> None:
    story = Story(subscription=Subscription(exclude=("video",)))
    found = {name: a_topic_reading(**fields) for name, fields in topics.items()}
    assert story.settled(readings(found, next_due=20.0), a_pool()).replicas == wanted


def test_something_that_runs_is_never_left_without_a_pod() -> None:
    decision = Story().settled(
        readings(some_work(leased=1, started=1, completed=0), fenced("p0", busy=1)),
        a_pool(a_pod("p0")),
    )
    assert decision.desired == 1
    assert decision.unfence == ("p0",)


def test_a_minimum_is_kept_without_work() -> None:
    decision = Story(minimum=2).settled(readings({}), a_pool())
    assert (decision.replicas, decision.limited_by) == (2, "min")


# --- guards --------------------------------------------------------------------------------------


def test_no_more_pods_are_asked_for_while_new_ones_crash() -> None:
    pods = [a_pod(f"p{n}", failing=True, ready=False, age=60.0) for n in range(3)]
    decision = Story().tell(readings(some_work(100)), a_pool(*pods))
    assert (decision.replicas, decision.limited_by) == (None, Reason.CRASH_LOOP)


def test_they_are_not_asked_for_later_either_when_all_crash_for_long() -> None:
    pods = [a_pod(f"p{n}", failing=True, ready=False, age=4000.0) for n in range(3)]
    decision = Story().tell(readings(some_work(100)), a_pool(*pods))
    assert (decision.replicas, decision.limited_by) == (None, Reason.CRASH_LOOP)


def test_an_old_pod_that_crashes_beside_others_does_not_stop_growth() -> None:
    pods = [a_pod(f"p{n}", failing=n == 0, ready=n > 0, age=4000.0) for n in range(3)]
    assert Story().tell(readings(some_work(100)), a_pool(*pods)).replicas == 11


def test_no_more_pods_are_asked_for_while_one_finds_no_node() -> None:
    pods = [a_pod("p0"), a_pending_pod("p1", unschedulable=130.0)]
    decision = Story().tell(readings(some_work(100), a_row("p0")), a_pool(*pods))
    assert (decision.replicas, decision.limited_by) == (None, Reason.UNSCHEDULABLE)


def test_a_worker_whose_fence_has_ended_is_no_more_the_first_to_go() -> None:
    """The operator was away for longer than a fence lasts; the mark on the pod does not end by itself."""
    pods = a_pool(a_pod("p0", marked=True), a_pod("p1"))
    stats = readings(some_work(leased=2), a_row("p0", 1), a_row("p1", 1))
    assert Story().tell(stats, pods).unfence == ("p0",)
    assert Story().tell(stats, a_pool(a_pod("p0"), a_pod("p1"))).unfence == ()


def test_pods_that_crash_and_wait_may_go_and_one_that_runs_again_may_not() -> None:
    waiting = {"ready": False, "failing": True}
    pods = [a_pod(f"p{n}", **waiting) for n in range(3)]
    story = Story(fixed=1)
    decision = story.settled(readings({}), a_pool(*pods))
    assert (len(decision.remove), decision.replicas) == (2, 1)
    again = a_pool(replace(pods[0], running=True), *pods[1:])
    assert confirm(decision.remove, again, readings({})) == ()
    known = readings({}, a_row("p0"))
    assert "p0" not in story.settled(known, a_pool(*pods)).remove, "the broker knows of it"


# --- manual and suspended ------------------------------------------------------------------------


def test_a_fixed_number_is_grown_to_even_without_the_broker() -> None:
    decision = Story(fixed=5).tell(None, a_pool(a_pod("p0")))
    assert decision.replicas == 5


def test_a_smaller_fixed_number_is_reached_without_interrupting_anybody() -> None:
    rows = [a_row("p0", 1), a_row("p1")]
    decision = Story(fixed=1).tell(
        readings(some_work(leased=1), *rows), a_pool(a_pod("p0"), a_pod("p1"))
    )
    assert (decision.fence, decision.replicas) == (("p1",), None)


def test_a_smaller_fixed_number_waits_for_the_broker() -> None:
    assert Story(fixed=1).tell(None, a_pool(a_pod("p0"), a_pod("p1"))).replicas is None


def test_a_suspended_pool_empties_all_at_once_and_kills_nothing() -> None:
    rows = [a_row("p0", 1), a_row("p1"), a_row("p2")]
    pool = a_pool(*[a_pod(f"p{n}") for n in range(3)])
    decision = Story(drain=True, minimum=2).tell(readings(some_work(50, leased=1), *rows), pool)
    assert set(decision.fence) == {"p0", "p1", "p2"}
    assert decision.replicas is None


# --- the formula ---------------------------------------------------------------------------------


def steady(story: Story, rate: float, service: float, minutes: int = 20) -> Decision:
    """Arrivals at `rate` per second that take `service` seconds each and never wait."""
    running = rate * service
    pods = [a_pod(f"p{n}") for n in range(max(1, round(running)))]
    for step in range(minutes * 12):
        count = int(rate * 5 * step)
        work = some_work(
            leased=round(running), started=count, completed=max(0, count - round(running))
        )
        decision = story.tell(readings(work), a_pool(*pods))
    return decision


@pytest.mark.parametrize(("rate", "service"), [(4.0, 2.0), (0.5, 20.0), (0.1, 100.0)])
def test_a_steady_flow_is_given_what_runs_at_once(rate: float, service: float) -> None:
    """An empty queue is no reason to shrink: the pods are busy with what arrives (Little's law)."""
    decision = steady(Story(), rate, service)
    assert decision.desired is not None
    assert abs(decision.desired - rate * service) <= 2


def test_headroom_grows_with_the_root_of_the_load() -> None:
    little = steady(Story(headroom=1.0), 1.0, 16.0)
    assert little.desired is not None
    assert 17 <= little.desired <= 22


def test_a_backlog_of_short_tasks_is_cleared_within_the_target_not_at_once() -> None:
    """600 tasks of 1 s within 30 s take about 20 slots, not 600."""
    story = Story(maximum=1000)
    steady(story, 4.0, 1.0)
    work = some_work(600, leased=4, started=4800, completed=4796, oldest=1.0)
    pods = [a_pod(f"p{n}") for n in range(4)]
    decision = Story.tell(story, readings(work), a_pool(*pods))
    assert decision.terms.backlog == pytest.approx(20, rel=0.25)


def test_a_backlog_that_has_waited_too_long_gets_more() -> None:
    patient, late = Story(maximum=1000, up_pods=1000), Story(maximum=1000, up_pods=1000)
    sizes = []
    for story, age in ((patient, 1.0), (late, 100.0)):
        steady(story, 4.0, 1.0)
        work = some_work(600, leased=4, started=4800, completed=4796, oldest=age)
        decision = story.tell(readings(work), a_pool(a_pod("p0")))
        assert decision.desired is not None
        sizes.append(decision.desired)
    assert sizes[1] > sizes[0] * 1.15


def test_long_tasks_are_not_provided_for_twice() -> None:
    """Ten tasks of hours each run in ten slots; nothing waits; nothing more is needed."""
    rows = [a_row(f"p{n}", 1) for n in range(10)]
    pool = a_pool(*[a_pod(f"p{n}") for n in range(10)])
    decision = Story().settled(readings(some_work(leased=10, started=10), *rows), pool)
    assert decision.desired == 10


def test_what_is_left_of_an_old_rate_does_not_hold_a_pod() -> None:
    story = Story(idle_after=60.0)
    steady(story, 4.0, 2.0)
    quiet = readings(some_work(started=4800, completed=4800), a_row("p0"))
    pool = a_pool(a_pod("p0"))
    for _ in range(40):
        decision = story.tell(quiet, pool)
    assert (decision.desired, decision.fence) == (0, ("p0",))


@pytest.mark.parametrize(("needed", "most", "wanted"), [(19, 40, 20), (17, 40, 17), (19, 19, 19)])
def test_a_pool_that_is_little_too_large_stays_unless_its_bounds_say_otherwise(
    needed: int, most: int, wanted: int
) -> None:
    rows = [a_row(f"p{n}", int(n < needed)) for n in range(20)]
    pool = a_pool(*[a_pod(f"p{n}") for n in range(20)])
    work = readings(some_work(leased=needed, started=needed), *rows)
    assert Story(maximum=most).settled(work, pool).desired == wanted


# --- how far it looks ----------------------------------------------------------------------------


def forecast(story: Story, *pods: Any) -> float:
    """Of ten tasks that never end and one more each second, what is foreseen to run."""
    rows = [a_row(pod.name, 10) for pod in pods]
    for tick in range(400):
        work = {"long": a_topic_reading(leased=10, started=10 + 5 * tick)}
        decision = story.tell(readings(work, *rows), a_pool(*pods))
    return decision.terms.forecast


@pytest.mark.parametrize(
    ("took", "cold"), [((), 15.0), ((40.0,), 40.0), ((*range(1, 20), 300.0), 19.0)], ids=str
)
def test_it_looks_as_far_as_to_the_first_task_of_a_pod_that_the_next_look_asks_for(
    took: tuple[float, ...], cold: float
) -> None:
    pods = [a_pod(f"p{number}", start_took=seconds) for number, seconds in enumerate(took)]
    assert forecast(Story(), *pods) == pytest.approx(10 + cold + 5.0, abs=0.2)


def test_how_long_pods_take_is_known_when_they_are_gone() -> None:
    story = Story()
    story.tell(readings(), a_pool(a_pod("p0", start_took=90.0)))
    assert forecast(story) == pytest.approx(10 + 90.0 + 5.0, abs=0.2)


def test_an_operator_that_starts_gives_an_idle_pool_its_time() -> None:
    story, pods = Story(idle_after=300.0), [a_pod("p0"), a_pod("p1")]
    rows = [a_row("p0"), a_row("p1")]
    reasons = [
        story.tell(readings(some_work(), *rows), a_pool(*pods), passed).reason
        for passed in (5.0, 100.0, 190.0, 10.0)
    ]
    assert reasons == [Reason.IDLE, Reason.IDLE, Reason.IDLE, Reason.NO_WORK]
