"""Rendering: tables, JSON, and what people read of bytes, ages and unknowns."""

from __future__ import annotations

import io
import json

import pytest
import yaml

from millgate.cli.console import Console, OutputLost
from millgate.cli.harmless import lines
from millgate.cli.output import Table, age, brief, count, emit, payload, plain
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


def test_pipes_get_no_colours() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert Console(out=Terminal(), environ={}).colours
    assert not Console(out=Terminal(), environ={"NO_COLOR": "1"}).colours
    assert not Console(out=Terminal(), environ={"TERM": "dumb"}).colours
    assert not Console(out=io.StringIO(), environ={}).colours


def test_what_a_task_said_stays_in_its_cell() -> None:
    table = Table(("ID", "RESULT"), [("a1", "boom\nTraceback\x1b[2J\x07"), ("b2", "caf\ud800é")])
    assert table.render(colours=True).splitlines()[1:] == [
        "a1  boom Traceback\\x1b[2J\\x07",
        "b2  caf\\ud800é",
    ]
    assert lines("a\n\tb\x1b[31m\r\n") == "a\n        b\\x1b[31m"


def test_what_an_encoding_lacks_is_written_as_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    console = Console(environ={})
    console.print("a · b")
    emit(console, "json", {"name": "a · b"})
    assert raw.getvalue().decode("ascii").splitlines()[0] == "a \\xb7 b"
    assert '"a \\u00b7 b"' in raw.getvalue().decode("ascii")


def test_streams_that_were_closed_before_the_start_take_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", None)
    console = Console(environ={})
    console.print("nobody")
    console.say("nobody")
    assert not console.terminal
    assert not console.confirm("sure?")
    console.out.close()
    console.err.close()


def test_a_full_disk_is_an_error_of_one_line() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputLost, match="cannot be written: No space left on device"):
        Console(out=Full(), environ={}).print("x")


@pytest.mark.parametrize(
    "data",
    [b"[" * 5_000 + b"]" * 5_000, b"[" * 300 + b"]" * 300, b"[[NaN], {}]", b"[[-Infinity], {}]"],
)
@pytest.mark.parametrize("how", ["json", "yaml"])
def test_what_is_no_json_for_everybody_is_shown_as_the_text_that_it_is(
    data: bytes, how: str
) -> None:
    assert payload(data) == data.decode()
    assert brief(data).startswith('"[')
    stream = io.StringIO()
    emit(Console(out=stream, environ={}), how, {"call": data})
    assert yaml.safe_load(stream.getvalue()) == {"call": data.decode()}


@pytest.mark.parametrize("how", ["json", "yaml"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "iso-8859-1"])
def test_programs_read_the_same_whatever_the_encoding_and_terminals_stay_as_they_are(
    how: str, encoding: str
) -> None:
    said = "Zo\xeb \u2126 \x1b[31m \x9b2J \x7f \u202e \U000e0001 \xa0 \u2028\nend"
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace", write_through=True)
    emit(Console(out=stream, environ={}), how, {"said": said})
    printed = raw.getvalue().decode(encoding)
    read = json.loads if how == "json" else yaml.safe_load
    assert read(printed) == {"said": said}
    assert not {"\x1b", "\x9b", "\x7f"} & set(printed)
