"""How much is handed out ahead, by what was learned."""

from __future__ import annotations

from millgate.runtime.estimate import AHEAD, MOST, Runtimes, ahead


def test_nothing_is_handed_out_ahead_of_what_is_not_known() -> None:
    assert ahead(None, 1, MOST) == 0
    assert Runtimes().expect("new") is None
    assert Runtimes().mean is None


def test_short_tasks_are_handed_out_ahead_up_to_a_bound_and_long_ones_never() -> None:
    assert ahead(0.00001, 1, MOST) == MOST
    assert ahead(0.0, 1, MOST) == MOST
    assert ahead(0.01, 1, MOST) == 5
    assert ahead(0.01, 4, MOST) == 20
    assert ahead(AHEAD * 1.01, 1, MOST) == 0


def test_a_task_that_turned_out_long_is_believed_at_once_and_a_short_one_slowly() -> None:
    runtimes = Runtimes()
    for _ in range(50):
        runtimes.learn("t", 0.001)
    runtimes.learn("t", 10.0)
    assert ahead(runtimes.expect("t"), 1, MOST) == 0
    for _ in range(10):
        runtimes.learn("t", 0.001)
    assert ahead(runtimes.expect("t"), 1, MOST) == 0
    for _ in range(60):
        runtimes.learn("t", 0.001)
    assert ahead(runtimes.expect("t"), 1, MOST) > 0


def test_the_mean_leans_to_the_long_side_of_a_mixture() -> None:
    runtimes = Runtimes()
    for _ in range(30):
        runtimes.learn("short", 0.001)
        runtimes.learn("long", 5.0)
    mean = runtimes.mean
    assert mean is not None
    assert mean > 2.5
    assert mean <= 5.0
    assert runtimes.expect("short") == 0.001
    assert set(runtimes.snapshot()) == {"short", "long"}
