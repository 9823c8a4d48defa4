"""Values come back equal and of their type, or are refused with their path."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate import codec
from millgate.errors import NotDecodable, NotEncodable

# --- round trips ---------------------------------------------------------------------------------

any_text = st.text(st.characters(codec=None, exclude_categories=()))  # surrogates and NUL included
zones = st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")]) | st.builds(
    timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23))
)
hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | any_text
    | st.binary()
    | st.dates()
    | st.times(timezones=st.none() | zones)
    | st.datetimes(timezones=st.none() | zones)
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids(),
    lambda inner: st.tuples(inner) | st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.dictionaries(any_text, inner, max_size=4)
        | st.sets(hashable, max_size=4)
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal and of one type, at every depth; dict and set members are compared as sets of such."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, set | frozenset):
        return bool(one == other) and sorted(map(type_name, one)) == sorted(map(type_name, other))
    if isinstance(one, float):
        return math.copysign(1, one) == math.copysign(1, other) and one == other
    if isinstance(one, datetime | time):
        return one == other and one.fold == other.fold and same_zone(one.tzinfo, other.tzinfo)
    return bool(one == other)


def same_zone(one: tzinfo | None, other: tzinfo | None) -> bool:
    return type(one) is type(other) and one == other


def type_name(value: Any) -> str:
    return type(value).__name__


@given(values)
def test_every_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    assert same(codec.decode(codec.encode(value)), value)


@given(st.lists(values, max_size=3), st.dictionaries(any_text, values, max_size=3))
def test_a_call_comes_back_whole(args: list[Any], kwargs: dict[str, Any]) -> None:
    try:
        body = codec.encode_call(tuple(args), kwargs)
    except NotEncodable:
        assert any(not plain_text(name) for name in kwargs)
        return
    again, named = codec.decode_call(body)
    assert same(again, args)
    assert same(named, kwargs)


def plain_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@given(values)
def test_what_is_written_is_json(value: Any) -> None:
    json.loads(codec.encode(value), parse_constant=pytest.fail)


@given(values)
def test_equal_values_have_equal_canonical_bytes_whatever_the_order(value: Any) -> None:
    assert codec.canonical(turned(value)) == codec.canonical(value)


def turned(value: Any) -> Any:
    """The same value with the keys of every dict in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(item) for key, item in reversed(value.items())}
    return [turned(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("bits", [63, 64, 4095, 4096, 100_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_of_any_size_come_back(bits: int, sign: int) -> None:
    value = sign * 2**bits
    assert codec.decode(codec.encode(value)) == value
    assert codec.decode(codec.encode({value: {value}})) == {value: {value}}


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_floats_that_json_lacks_come_back(text: str) -> None:
    assert repr(codec.decode(codec.encode(float(text)))) == text


@pytest.mark.parametrize("microseconds", [1, -1, 3_600_000_001])
def test_an_offset_that_iso_has_no_form_for_comes_back(microseconds: int) -> None:
    zone = timezone(timedelta(microseconds=microseconds))
    for value in (datetime(2026, 1, 1, tzinfo=zone), time(1, tzinfo=zone)):
        assert same(codec.decode(codec.encode(value)), value)


def test_a_zone_that_cannot_be_written_is_refused() -> None:
    class Nowhere(tzinfo):
        dst = tzname = lambda self, _: None

        def utcoffset(self, _: datetime | None) -> None:
            return None

    with pytest.raises(NotEncodable, match=r"args\[0\]: its time zone has no name") as caught:
        codec.encode_call((time(1, tzinfo=Nowhere()),), {})
    assert caught.value.__suppress_context__  # the text says all


@pytest.mark.parametrize("text", ["NaN", "sNaN", "-Infinity", "-0", "1E+999999", "0.10"])
def test_decimals_come_back_to_the_last_digit(text: str) -> None:
    assert str(codec.decode(codec.encode(Decimal(text)))) == text


def test_two_lone_surrogates_do_not_become_one_character() -> None:
    assert codec.decode(codec.encode("\ud83d\ude00")) == "\ud83d\ude00"


def test_plain_json_stays_plain_json() -> None:
    value = {"a": [1, 2.5, None, True, "ü", {"$set": 1}], "b": {}}
    assert json.loads(codec.encode(value)) == value
    assert codec.decode(b' { "$set" : {"$date": 1} } ') == {"$set": {"$date": 1}}


@pytest.mark.parametrize("key", ["$mg:set", "$mg:", "$mg:as"])
def test_a_dict_that_looks_like_a_tag_is_still_a_dict(key: str) -> None:
    assert codec.decode(codec.encode({key: [1]})) == {key: [1]}


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001 -- naive is what is tested
        datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    ],
)
def test_the_second_pass_of_an_hour_stays_the_second(value: datetime) -> None:
    again = codec.decode(codec.encode(value))
    assert (again.fold, again.utcoffset()) == (1, value.utcoffset())


# --- refusals ------------------------------------------------------------------------------------


class Text(str):
    """A text of a kind of its own."""


Point = namedtuple("Point", "x y")


class Plain:
    """Nothing is known of it."""


class Fake:
    """Calls itself by a standard name."""


Fake.__module__, Fake.__qualname__ = "decimal", "Decimal"


@pytest.mark.parametrize(
    ("value", "path", "advice"),
    [
        ([0, {"when": Plain()}], "args[1]['when']", "register"),
        ([{"a": [bytearray(b"x")]}], "args[0]['a'][0]", "bytes(…)"),
        ([{1: {2: Plain()}}], "args[0][1][2]", "register"),
        ([Text("x")], "args[0]", "str(…)"),
        ([Point(1, 2)], "args[0]", "register"),
        ([Fake()], "args[0]", "register"),
        ([(1, {Plain})], "args[0][1] item", "register"),
        ([{Plain(): 1}], "args[0] key", "register"),
        ([print], "args[0]", "register"),
    ],
)
def test_what_cannot_travel_is_refused_with_its_path(
    value: list[Any], path: str, advice: str
) -> None:
    with pytest.raises(NotEncodable) as refused:
        codec.encode_call(tuple(value), {})
    assert str(refused.value).startswith(path)
    assert advice in str(refused.value)
    assert isinstance(refused.value, TypeError)


def test_a_named_argument_has_its_path_too() -> None:
    with pytest.raises(NotEncodable, match=r"kwargs\['when'\]\[0\]"):
        codec.encode_call((), {"when": [Plain()]})


def test_a_value_in_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotEncodable, match="deeper than 100"):
        codec.encode(loop)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {1: (value,)}
    return value


def test_the_deepest_value_that_is_taken_can_be_read() -> None:
    assert same(codec.decode(codec.encode(nested(50))), nested(50))
    with pytest.raises(NotEncodable, match="deeper than 100"):
        codec.encode(nested(51))


def test_a_very_deep_value_is_refused_and_does_not_overflow() -> None:
    with pytest.raises(NotEncodable):
        codec.encode(nested(100_000))


def test_a_long_path_is_cut() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotEncodable) as refused:
        codec.encode(loop)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"9" * 5000,
        b'{"$mg:new":1}',
        b'{"$mg:set":[[1]]}',
        b'{"$mg:set":1}',
        b'{"$mg:dict":[[{},1]]}',
        b'{"$mg:dict":[1]}',
        b'{"$mg:datetime":"yesterday"}',
        b'{"$mg:datetime":["2026-01-01",0,"../../etc/passwd"]}',
        b'{"$mg:datetime":["2026-01-01",0,"No/Where"]}',
        b'{"$mg:bytes":"?"}',
        b'{"$mg:uuid":"x"}',
        b'{"$mg:decimal":"x"}',
        b'{"$mg:timedelta":[1e99]}',
        b'{"$mg:as":["os:system","ls"]}',
        b'{"$mg:as":7}',
        b'{"$mg:str":"zz"}',
        b'{"$mg:int":[]}',
    ],
)
def test_hostile_bytes_are_refused_as_such(data: bytes) -> None:
    with pytest.raises(NotDecodable):
        codec.decode(data)


@given(st.binary(max_size=50))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with suppress(NotDecodable):
        codec.decode(data)


@pytest.mark.parametrize(
    "body", [b"1", b"[]", b"[[]]", b"[{},[]]", b"[[],[]]", b'[[],{"$mg:dict":[[1,2]]}]']
)
def test_a_body_is_an_array_of_two(body: bytes) -> None:
    with pytest.raises(NotDecodable, match="array of two"):
        codec.decode_call(body)


# --- splicing ------------------------------------------------------------------------------------


@given(st.lists(values, max_size=2), values)
def test_a_spliced_value_comes_first(args: list[Any], first: Any) -> None:
    body = codec.splice(codec.encode_call(tuple(args), {"k": 1}), codec.encode(first))
    again, named = codec.decode_call(body)
    assert same(again, [first, *args])
    assert named == {"k": 1}


def test_a_body_with_spaces_is_spliced_too() -> None:
    assert codec.decode_call(codec.splice(b" \n[ [ ], {} ]", b"1")) == ([1], {})


@pytest.mark.parametrize("body", [b"", b"1", b"{}", b"[1]"])
def test_what_is_no_body_is_not_spliced(body: bytes) -> None:
    with pytest.raises(NotDecodable):
        codec.splice(body, b"1")
