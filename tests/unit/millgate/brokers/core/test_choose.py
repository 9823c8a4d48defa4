"""Levels, weights, ageing, limits and reserve as plain numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.brokers.core.choose import Entrant, choose, raised


def entrant(
    name: str, level: int = 5, weight: int = 10, passed: float = 0.0, **rest: int
) -> Entrant:
    return Entrant(name, level, weight, passed, rest.get("quota", 1000), rest.get("unmet", 0))


def granted(entrants: list[Entrant], n: int, room: int | None = None) -> dict[str, int]:
    choose(entrants, n, room)
    return {each.name: each.granted for each in entrants}


def test_a_single_topic_gets_everything_it_may_have() -> None:
    assert granted([entrant("a", quota=7)], 100) == {"a": 7}
    assert granted([entrant("a", quota=7)], 3) == {"a": 3}


def test_nobody_is_served_when_nobody_competes() -> None:
    assert choose([], 10) == []


def test_levels_are_strict() -> None:
    assert granted([entrant("low", 1), entrant("high", 9, quota=4)], 10) == {"low": 6, "high": 4}
    assert granted([entrant("low", 1), entrant("high", 9)], 10) == {"low": 0, "high": 10}


def test_the_order_of_service_is_that_of_the_levels() -> None:
    served = choose([entrant("low", 1), entrant("high", 9, quota=1), entrant("mid", 5, quota=1)], 3)
    assert [each.name for each in served] == ["high", "mid", "low"]


def test_weights_share_a_level() -> None:
    assert granted([entrant("a", weight=10), entrant("b", weight=30)], 400) == {"a": 100, "b": 300}


def test_whoever_is_behind_goes_first() -> None:
    assert granted([entrant("a", passed=0.5), entrant("b", passed=0.2)], 1) == {"a": 0, "b": 1}


def test_equal_passes_are_served_by_name_so_that_the_choice_is_always_the_same() -> None:
    assert granted([entrant("b"), entrant("a")], 1) == {"a": 1, "b": 0}


def test_credit_is_bounded_by_one_step_of_the_smallest_weight() -> None:
    away, here = entrant("away", passed=0.0), entrant("here", passed=500.0)
    choose([away, here], 100)
    assert (away.granted, here.granted) == (55, 45)  # 10 starts of credit, then in turn


def test_what_a_quota_leaves_goes_to_the_others() -> None:
    assert granted([entrant("a", quota=2), entrant("b")], 20) == {"a": 2, "b": 18}


def test_room_bounds_all_together_and_a_reserve_is_private() -> None:
    assert granted([entrant("bulk"), entrant("vip", unmet=3)], 100, room=4) == {"bulk": 3, "vip": 4}


def test_no_room_leaves_the_reserve_usable() -> None:
    assert granted([entrant("bulk"), entrant("vip", unmet=3)], 100, room=0) == {"bulk": 0, "vip": 3}


def test_an_overcommitted_queue_serves_a_reserve_only_for_what_is_left() -> None:
    assert granted([entrant("bulk"), entrant("vip", unmet=3)], 100, room=-2) == {
        "bulk": 0,
        "vip": 1,
    }


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 100), st.floats(0, 50), st.integers(0, 30)),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 100),
    st.one_of(st.none(), st.integers(-5, 60)),
)
def test_nothing_is_granted_beyond_any_bound_and_nothing_is_left_that_could_be(
    rows: list[tuple[int, int, float, int]], n: int, room: int | None
) -> None:
    entrants = [
        Entrant(f"t{position}", level, weight, passed, quota)
        for position, (level, weight, passed, quota) in enumerate(rows)
    ]
    choose(entrants, n, room)
    total = sum(each.granted for each in entrants)
    assert all(0 <= each.granted <= each.quota for each in entrants)
    bound = n if room is None else min(n, max(0, room))
    assert total == min(bound, sum(each.quota for each in entrants))
    for high in entrants:
        for low in entrants:
            if high.level > low.level and low.granted:
                assert high.granted == high.quota


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 20), min_size=2), st.integers(1, 20))
def test_shares_follow_the_weights_over_many_claims(weights: dict[str, int], batch: int) -> None:
    passes = dict.fromkeys(weights, 0.0)
    counts = dict.fromkeys(weights, 0)
    rounds = 40 * sum(weights.values()) // batch
    for _ in range(rounds):
        entrants = [entrant(name, weight=weights[name], passed=passes[name]) for name in weights]
        choose(entrants, batch)
        for each in entrants:
            counts[each.name] += each.granted
            passes[each.name] = each.passed
    for name, weight in weights.items():
        fair = weight / sum(weights.values()) * rounds * batch
        assert abs(counts[name] - fair) <= weight + 2


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.floats(0, 1.2), st.integers(1, 20)), min_size=1, max_size=5
    ),
    st.integers(1, 40),
)
def test_many_starts_are_shared_out_as_if_one_by_one(
    makes: list[tuple[int, float, int]], n: int
) -> None:
    def made() -> list[Entrant]:
        return [
            entrant(chr(97 + number), weight=weight, passed=passed, quota=quota)
            for number, (weight, passed, quota) in enumerate(makes)
        ]

    singly = made()
    front = max(each.passed for each in singly)
    for each in singly:  # credit is cut once, before the first start
        each.passed = max(each.passed, front - 1.0)
    for _ in range(n):
        able = [each for each in singly if each.granted < each.quota]
        if able:
            next_ = min(able, key=lambda each: (each.passed, each.name))
            next_.granted += 1
            next_.passed += 1 / next_.weight
    together = granted(made(), n)
    for each in singly:  # sums of floats may differ in their last digit, which swaps two starts
        assert abs(together[each.name] - each.granted) <= 1, (together, makes)


@pytest.mark.parametrize(
    ("waited", "expected"),
    [(0.0, 3), (599.0, 3), (600.0, 4), (1200.0, 5), (3600.0, 7), (1e9, 7)],
)
def test_each_interval_raises_by_one_and_never_above_the_best(waited: float, expected: int) -> None:
    assert raised(3, waited, 600.0, top=7) == expected


def test_without_an_interval_nothing_is_raised_and_nothing_is_lowered() -> None:
    assert raised(3, 1e9, 0.0, top=7) == 3
    assert raised(9, 1e9, 1.0, top=7) == 9
