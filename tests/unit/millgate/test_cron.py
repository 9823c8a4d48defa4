"""When schedules are due: through the nights on which a clock jumps, and after a stop."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.cron import Misfire, Schedule
from millgate.errors import InvalidInput

BERLIN = "Europe/Berlin"  # 2026: forward on 29 March at 02:00, back on 25 October at 03:00
NEW_YORK = "America/New_York"  # 2026: forward on 8 March at 02:00, back on 1 November at 02:00
JUMPS = {
    (BERLIN, "forward"): datetime(2026, 3, 29, tzinfo=ZoneInfo(BERLIN)),
    (BERLIN, "back"): datetime(2026, 10, 25, tzinfo=ZoneInfo(BERLIN)),
    (NEW_YORK, "forward"): datetime(2026, 3, 8, tzinfo=ZoneInfo(NEW_YORK)),
    (NEW_YORK, "back"): datetime(2026, 11, 1, tzinfo=ZoneInfo(NEW_YORK)),
}
EXPRESSIONS = [
    "0 12 * * *",
    "30 2 * * *",
    "30 1 * * *",
    "*/15 * * * *",
    "0 */6 * * *",
    "0,30 1-3 * * *",
    "@hourly",
]


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def local(schedule: Schedule, start: float, end: float) -> list[str]:
    """The slots in (start, end], as people in that zone write them."""
    zone = ZoneInfo(schedule.timezone)
    slots = takewhile(lambda slot: slot <= end, schedule.slots(start))
    return [datetime.fromtimestamp(slot, zone).strftime("%d %H:%M%z") for slot in slots]


def around(zone: str, direction: str) -> tuple[float, float]:
    """Two days before a jump to two days after it."""
    day = JUMPS[zone, direction]
    return (day - timedelta(days=2)).timestamp() - 1, (day + timedelta(days=3)).timestamp()


# --- the nights on which a clock jumps -----------------------------------------------------------


@pytest.mark.parametrize(("zone", "direction"), JUMPS)
def test_noon_is_noon_each_day(zone: str, direction: str) -> None:
    slots = local(Schedule("0 12 * * *", zone), *around(zone, direction))
    assert len(slots) == 5
    assert all(" 12:00" in slot for slot in slots)


@pytest.mark.parametrize(("zone", "direction"), JUMPS)
@pytest.mark.parametrize(("expression", "every"), [("*/15 * * * *", 900), ("*/7 * * * *", None)])
def test_every_quarter_of_an_hour_is_real_time(
    zone: str, direction: str, expression: str, every: float | None
) -> None:
    start, end = around(zone, direction)
    slots = list(takewhile(lambda slot: slot <= end, Schedule(expression, zone).slots(start)))
    gaps = {later - earlier for earlier, later in pairwise(slots)}
    assert gaps == ({every} if every else {420.0, 240.0})


def test_a_time_that_the_clock_skips_runs_when_the_skipped_hour_is_over() -> None:
    assert local(Schedule("30 2 * * *", BERLIN), *around(BERLIN, "forward"))[1:4] == [
        "28 02:30+0100",
        "29 03:00+0200",
        "30 02:30+0200",
    ]


def test_two_times_that_the_clock_skips_run_once() -> None:
    slots = local(Schedule("15,45 2 * * *", BERLIN), *around(BERLIN, "forward"))
    assert [slot for slot in slots if slot.startswith("29")] == ["29 03:00+0200"]


def test_a_time_that_comes_twice_runs_the_first_time() -> None:
    assert local(Schedule("30 2 * * *", BERLIN), *around(BERLIN, "back"))[1:4] == [
        "24 02:30+0200",
        "25 02:30+0200",
        "26 02:30+0100",
    ]
    assert local(Schedule("30 1 * * *", NEW_YORK), *around(NEW_YORK, "back"))[2:4] == [
        "01 01:30-0400",
        "02 01:30-0500",
    ]


@pytest.mark.parametrize(("zone", "direction"), JUMPS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_start_at_any_moment_changes_nothing(zone: str, direction: str, expression: str) -> None:
    """Restarted every eleven minutes through the jump, it names the moments that it names without a restart."""
    schedule = Schedule(expression, zone)
    start, end = around(zone, direction)
    whole = list(takewhile(lambda slot: slot <= end, schedule.slots(start)))
    seen: set[float] = set()
    moment = start
    while moment <= end:
        following = schedule.next(moment)
        assert following is not None
        assert following > moment
        seen.add(following)
        moment += 660
    assert seen >= set(whole)
    assert sorted(slot for slot in seen if slot <= end) == whole


@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(["UTC", BERLIN, NEW_YORK, "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.integers(1_700_000_000, 1_900_000_000),
)
def test_slots_are_whole_minutes_in_order_and_after_the_start(
    expression: str, zone: str, start: int
) -> None:
    slots = Schedule(expression, zone).slots(start)
    first = [next(slots) for _ in range(5)]
    assert first == sorted(set(first))
    assert first[0] > start
    assert all(slot % 60 == 0 for slot in first)


# --- what is due ---------------------------------------------------------------------------------

NOON = at("2026-06-01T12:00")
MINUTE = 60.0
DAY = 86400.0


def test_nothing_is_due_between_slots() -> None:
    schedule = Schedule("0 * * * *")
    assert schedule.due(NOON, NOON + 3599) == []
    assert schedule.due(NOON, NOON + 3600) == [NOON + 3600]


@pytest.mark.parametrize("misfire", Misfire)
def test_a_slot_that_is_a_little_late_is_on_time(misfire: Misfire) -> None:
    schedule = Schedule("* * * * *", misfire=misfire)
    assert schedule.due(NOON, NOON + 76) == [NOON + 60]


def test_a_slot_is_skipped_once_it_is_more_than_a_minute_late() -> None:
    schedule = Schedule("0 12 * * *", misfire=Misfire.SKIP)
    assert schedule.due(NOON - DAY, NOON + 60) == [NOON]
    assert schedule.due(NOON - DAY, NOON + 60.5) == []


@pytest.mark.parametrize(
    ("misfire", "expected"),
    [
        (Misfire.SKIP, []),
        (Misfire.ONCE, [NOON + 3 * DAY]),
        (Misfire.ALL, [NOON + day * DAY for day in (1, 2, 3)]),
    ],
)
def test_slots_missed_in_a_stop_follow_the_policy(misfire: Misfire, expected: list[float]) -> None:
    schedule = Schedule("0 12 * * *", misfire=misfire)
    assert schedule.due(NOON, NOON + 3.5 * DAY) == expected


def test_three_days_of_minutes_are_one_run_by_default_and_bounded_with_all() -> None:
    now = NOON + 3 * DAY + 5
    assert Schedule("* * * * *").due(NOON, now) == [NOON + 3 * DAY]
    every = Schedule("* * * * *", misfire=Misfire.ALL, catch_up=10).due(NOON, now)
    assert every == [NOON + 3 * DAY - MINUTE * back for back in range(9, -1, -1)]


def test_years_of_minutes_cost_little() -> None:
    assert Schedule("* * * * *").due(0.0, NOON) == [NOON]
    assert Schedule("@yearly").due(0.0, NOON) == [at("2026-01-01T00:00")]


def test_a_clock_set_back_makes_nothing_due() -> None:
    assert Schedule("* * * * *").due(NOON, NOON - 3600) == []


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "@yearly",
        "@monthly",
        "@weekly",
        "@DAILY",
        "0 9 * * MON-FRI",
        "0 0 1 JAN,JUL *",
        "*/5 * * * 7",
    ],
)
def test_names_and_aliases_are_known(text: str) -> None:
    Schedule(text).check()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "@never",
        "61 * * * *",
        "x * * * *",
        "0 0 31 2 *",
        "*/0 * * * *",
    ],
)
def test_an_expression_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="cron"):
        Schedule(text).check()


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "europe"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInput, match="timezone"):
        Schedule("* * * * *", zone).check()


def test_catching_up_has_a_bound() -> None:
    with pytest.raises(InvalidInput, match="catch_up"):
        Schedule("* * * * *", catch_up=10**6).check()


def test_utc_needs_no_zone_data() -> None:
    assert datetime.fromtimestamp(Schedule("0 12 * * *").next(NOON) or 0, UTC).hour == 12
