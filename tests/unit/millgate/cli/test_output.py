"""Rendering: tables, JSON, and what people read of bytes, ages and unknowns."""

from __future__ import annotations

import io

import pytest
import yaml

from millgate.cli.console import Console
from millgate.cli.output import Table, age, brief, count, emit, payload, plain
from millgate.errors import InvalidSettings
from millgate.stats import TopicStats


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0042, "4ms"),
        (4.25, "4.2s"),
        (190, "3m10s"),
        (7500, "2h05m"),
        (273600, "3d4h"),
        (59.97, "60.0s"),
    ],
)
def test_ages_have_two_units_at_most(seconds: float | None, text: str) -> None:
    assert age(seconds) == text


def test_unknown_is_not_zero() -> None:
    assert (count(None), count(0)) == ("?", "0")
    assert plain(TopicStats())["waiting"] is None


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    table = Table(("TOPIC", "N"), [("a", "5"), ("long", "1200"), ("x", "?")])
    assert table.render().splitlines() == [
        "TOPIC     N",
        "a         5",
        "long   1200",
        "x         ?",
    ]


def test_a_table_without_rows_still_has_its_titles() -> None:
    assert Table(("ID", "STATE"), []).render() == "ID  STATE"


def test_colours_do_not_move_columns() -> None:
    table = Table(("STATE", "ID"), [("failed", "1"), ("succeeded", "2")])
    bare = table.render()
    coloured = table.render(colours=True)
    assert "\x1b[31mfailed" in coloured
    for code in ("\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == bare


def test_wide_letters_count_twice() -> None:
    lines = Table(("A", "B"), [("日本", "x"), ("ab", "y")]).render().splitlines()
    assert lines == ["A     B", "日本  x", "ab    y"]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (None, None),
        (b'{"a":[1]}', {"a": [1]}),
        (b"half way", "half way"),
        (b"\xff\x00", {"base64": "/wA="}),
    ],
)
def test_payloads_are_shown_as_what_they_are(data: bytes | None, value: object) -> None:
    assert payload(data) == value


def test_a_long_payload_is_cut_with_a_mark() -> None:
    assert brief(b'"' + b"x" * 100 + b'"', 10) == '"xxxxxxxx…'


def test_yaml_says_the_same_as_json() -> None:
    out = io.StringIO()
    emit(Console(out=out, environ={}), "yaml", {"n": None, "t": TopicStats(waiting=3)})
    assert yaml.safe_load(out.getvalue())["t"]["waiting"] == 3


def test_yaml_without_its_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(InvalidSettings, match="pip install pyyaml"):
        emit(Console(out=io.StringIO(), environ={}), "yaml", {})


def test_pipes_get_no_colours() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert Console(out=Terminal(), environ={}).colours
    assert not Console(out=Terminal(), environ={"NO_COLOR": "1"}).colours
    assert not Console(out=Terminal(), environ={"TERM": "dumb"}).colours
    assert not Console(out=io.StringIO(), environ={}).colours
