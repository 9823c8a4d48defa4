"""Who may go, who is fenced next, who is let back in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millgate.fleet import Beat, WorkerRow
from millgate_operator.scaling import Pod, ScalingPolicy
from millgate_operator.scaling.removal import Fleet, fleet, removable, returning, victims
from support.pools import a_pending_pod, a_pod, a_pool, a_row, fenced, readings

POLICY = ScalingPolicy(slots=1, maximum=40, in_percent=10)


def of(*members: tuple[Pod, WorkerRow | None]) -> Fleet:
    rows = [row for _, row in members if row is not None]
    return fleet(a_pool(*(pod for pod, _ in members)), readings({}, *rows))


def busy(name: str, runs: int, oldest: float | None) -> WorkerRow:
    return replace(a_row(name, runs), beat=Beat(busy=runs, oldest=oldest))


def leaving(name: str, left: float | None, **fields: Any) -> tuple[Pod, WorkerRow]:
    """A pod that has been fenced, is not ready any more and has the low cost."""
    pod = replace(a_pod(name, ready=False, marked=True), **fields)
    return pod, replace(fenced(name), fence_left=left)


def test_first_the_idle_then_those_with_the_fewest_runs_then_with_the_youngest() -> None:
    made = of(
        (a_pod("two"), busy("two", 2, 1.0)),
        (a_pod("old"), busy("old", 1, 500.0)),
        (a_pod("young"), busy("young", 1, 5.0)),
        (a_pod("idle"), busy("idle", 0, None)),
    )
    all_of_them = replace(POLICY, in_percent=100)
    assert victims(all_of_them, made, 4, 0) == ("idle", "young", "old", "two")
    assert victims(all_of_them, made, 2, 0) == ("idle", "young")


def test_of_two_that_are_alike_the_younger_pod_goes() -> None:
    made = of((a_pod("a", age=900.0), a_row("a")), (a_pod("b", age=100.0), a_row("b")))
    assert victims(POLICY, made, 1, 0) == ("b",)


def test_no_more_than_the_share_of_the_policy_at_once_and_one_at_least() -> None:
    three = of(*((a_pod(f"p{n}"), a_row(f"p{n}")) for n in range(3)))
    assert len(victims(POLICY, three, 3, 0)) == 1
    twenty = of(*((a_pod(f"p{n:02}"), a_row(f"p{n:02}")) for n in range(20)))
    assert len(victims(POLICY, twenty, 20, 0)) == 2
    assert len(victims(replace(POLICY, drain=True), twenty, 20, 0)) == 20


def test_those_that_are_fenced_count_unless_they_go_now() -> None:
    made = of(leaving("gone", 100.0), *((a_pod(f"p{n}"), a_row(f"p{n}")) for n in range(3)))
    assert victims(POLICY, made, 3, 0) == ()
    assert victims(POLICY, made, 3, 1) == ("p0",)


@pytest.mark.parametrize(
    ("left", "may"), [(None, True), (30.0, True), (29.9, False), (0.0, False)], ids=str
)
def test_nobody_goes_on_a_fence_that_ends_soon(left: float | None, may: bool) -> None:
    assert removable(of(leaving("p", left)), 0) == (("p",) if may else ())


def test_what_has_never_run_goes_first_up_to_the_excess() -> None:
    made = of(*((a_pending_pod(f"p{n}"), None) for n in range(3)))
    assert removable(made, 2) == ("p0", "p1")
    assert removable(made, 0) == removable(made, -1) == ()


def test_a_pod_that_may_hold_work_unseen_keeps_everybody() -> None:
    made = of(leaving("p", 100.0), (a_pod("odd", ready=False), a_row("odd", 1)))
    assert removable(made, 5) == ()


def test_a_crashed_pod_that_nobody_knows_may_go_and_one_that_runs_again_may_not() -> None:
    crashed = a_pod("c", ready=False, failing=True, running=False)
    assert removable(of((crashed, None)), 1) == ("c",)
    assert removable(of((replace(crashed, running=True), None)), 1) == ()


def test_those_that_still_work_come_back_first_then_those_that_are_ready() -> None:
    made = of(
        (a_pod("idle-ready"), fenced("idle-ready")),
        (a_pod("idle", ready=False), fenced("idle")),
        (a_pod("busy"), fenced("busy", 1)),
    )
    assert returning(made, 3) == ("busy", "idle-ready", "idle")
    assert returning(made, 1) == ("busy",)
    assert returning(made, 0) == returning(made, -2) == ()
