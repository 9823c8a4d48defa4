"""Quantities as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InvalidInput
from millgate.limits import (
    Ceiling,
    Rate,
    format_bytes,
    format_duration,
    parse_bytes,
    parse_duration,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("2d", 172800),
        (7, 7),
        (0.5, 0.5),
        (" 5s ", 5),
    ],
)
def test_durations_are_read(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5x", "1h foo", "1m1", True, None])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a duration"):
        parse_duration(text)


@given(st.integers(0, 10**12))
def test_durations_of_whole_milliseconds_survive_writing(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (5400, "1h30m"), (0.25, "250ms"), (86400, "24h")]
)
def test_durations_are_written_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("400Mi", 400 * 2**20),
        ("1.5G", 1_500_000_000),
        ("2Ti", 2**41),
        ("100", 100),
        (100, 100),
        ("3k", 3000),
        ("200M", 200_000_000),
        ("0.2Gi", 214_748_364),
        ("209715200", 200 * 2**20),
    ],
)
def test_amounts_of_memory_are_read(text: str | int, amount: int) -> None:
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(
    "text", ["", "Mi", "-1Mi", "1mi", "200m", "200KB", "200 MB", "1 Mi", "0x10", True]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not an amount of memory"):
        parse_bytes(text)


@pytest.mark.parametrize("amount", [0, 1023, 2**20, 400 * 2**20, 3 * 2**30])
def test_amounts_are_written_in_binary_units(amount: int) -> None:
    assert parse_bytes(format_bytes(amount)) == amount


def test_a_ceiling_is_an_amount_or_a_share() -> None:
    assert Ceiling.parse("400Mi") == Ceiling(amount=400 * 2**20)
    assert Ceiling.parse("80%") == Ceiling(share=0.8)
    assert str(Ceiling.parse("80%")) == "80%"
    assert str(Ceiling.parse("400Mi")) == "400Mi"


def test_a_share_of_no_limit_is_unknown() -> None:
    assert Ceiling(share=0.5).resolve(1000) == 500
    assert Ceiling(share=0.5).resolve(None) is None
    assert Ceiling(amount=7).resolve(None) == 7


@pytest.mark.parametrize("text", ["0%", "101%", "80 %", "%", "lots"])
def test_what_is_no_ceiling_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Ceiling.parse(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", Rate(10)),
        ("100/5m", Rate(100, 300.0)),
        ("10/s burst 30", Rate(10, 1.0, 30)),
        ("1/250ms", Rate(1, 0.25)),
    ],
)
def test_rates_are_read_and_written(text: str, rate: Rate) -> None:
    assert Rate.parse(text) == rate
    assert Rate.parse(str(rate)) == rate


@pytest.mark.parametrize("text", ["", "10", "10/", "0/s", "-1/s", "10/x", "10/s burst"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a rate"):
        Rate.parse(text)


def test_a_full_bucket_holds_the_burst() -> None:
    assert Rate(10).capacity == 10
    assert Rate(10, burst=30).capacity == 30
