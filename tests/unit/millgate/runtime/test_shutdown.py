"""The phases of a drain."""

from __future__ import annotations

from millgate.runtime.shutdown import Drain, Stage


def stages(drain: Drain, *times: float) -> list[Stage]:
    return [drain.stage(time) for time in times]


def test_without_a_signal_there_is_no_drain() -> None:
    assert Drain().stage(1e9) is Stage.WORKING
    assert not Drain().over(1e9)
    assert Drain().hurry(5.0) == Drain()


def test_tasks_are_asked_fifteen_seconds_before_and_given_back_five_seconds_before() -> None:
    drain = Drain.begin(1000.0, 600.0)
    assert stages(drain, 1000, 1584.9) == [Stage.FINISHING] * 2
    assert stages(drain, 1585, 1594.9) == [Stage.ASKING] * 2
    assert stages(drain, 1595, 1700) == [Stage.GIVING_BACK] * 2
    assert [drain.over(now) for now in (1599.9, 1600.0)] == [False, True]


def test_a_short_drain_keeps_half_for_the_tasks_and_a_quarter_for_the_broker() -> None:
    drain = Drain.begin(0.0, 8.0)
    assert stages(drain, 3.9, 4.0, 5.9, 6.0) == [
        Stage.FINISHING,
        Stage.ASKING,
        Stage.ASKING,
        Stage.GIVING_BACK,
    ]


def test_no_time_at_all_gives_everything_back_at_once() -> None:
    drain = Drain.begin(0.0, 0.0)
    assert drain.stage(0.0) is Stage.GIVING_BACK
    assert drain.over(0.0)


def test_a_second_signal_ends_it_in_seconds_and_never_makes_it_longer() -> None:
    drain = Drain.begin(0.0, 600.0).hurry(100.0)
    assert stages(drain, 100.0, 101.9, 102.0) == [Stage.ASKING, Stage.ASKING, Stage.GIVING_BACK]
    assert drain.ends == 104.0
    short = Drain.begin(0.0, 3.0)
    assert short.hurry(1.0).ends == 3.0
    assert short.hurry(1.0).gives_back == short.gives_back


def test_the_same_signal_on_two_ways_does_not_hurry() -> None:
    assert not Drain().echoes(100.0)
    drain = Drain.begin(100.0, 60.0)
    assert drain.echoes(100.1)
    assert not drain.echoes(101.0)
