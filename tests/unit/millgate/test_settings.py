"""Settings survive the environment, and what is wrong in them is named."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import Phase, find, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from millgate.errors import InvalidSettings
from millgate.limits import Ceiling
from millgate.runtime.deadlines import ROWS
from millgate.settings import MAX_CHILDREN, PREFIX, WorkerSettings, misspelt

UNSHRUNK = hypothesis_settings(database=None, phases=[Phase.generate])
words = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
names = st.lists(words, max_size=3).map(tuple)
milliseconds = st.integers(0, 10**9).map(lambda number: number / 1000)
amounts = st.integers(2**20, 2**40).map(lambda amount: Ceiling(amount=amount))
shares = st.integers(1, 100).map(lambda percent: Ceiling(share=percent / 100))


@st.composite
def ceilings(draw: st.DrawFn) -> tuple[Ceiling | None, Ceiling | None]:
    """A soft one below a hard one, either of which may be missing."""
    low, high = sorted(
        draw(st.lists(st.integers(2**20, 2**40), min_size=2, max_size=2, unique=True))
    )
    soft: Ceiling | None = Ceiling(amount=low)
    hard: Ceiling | None = Ceiling(amount=high)
    share = draw(shares)
    return draw(
        st.sampled_from(
            [(soft, hard), (None, hard), (soft, None), (None, None), (share, hard), (soft, share)]
        )
    )


@st.composite
def settings(draw: st.DrawFn) -> WorkerSettings:
    soft, hard = draw(ceilings())
    topics = draw(names)
    broker, file = draw(st.sampled_from([("local://", ""), ("", "/etc/broker/url"), ("", "")]))
    return WorkerSettings(
        broker=broker,
        broker_file=file,
        queue=draw(words),
        app=draw(st.just("") | words.map(lambda word: f"{word}:app")),
        name=draw(words),
        topics=topics,
        exclude=draw(names),
        ordered=bool(topics) and draw(st.booleans()),
        children=draw(st.integers(1, 64)),
        slots=draw(st.integers(1, 64)),
        max_rss=soft,
        hard_max_rss=hard,
        memory=draw(st.none() | amounts | shares),
        max_tasks=draw(st.integers(0, 10**6)),
        max_lifetime=draw(milliseconds),
        drain_timeout=draw(milliseconds),
        metrics=draw(st.just("") | st.just("0.0.0.0:8080")),
        preload=draw(st.booleans()),
        log_format=draw(st.sampled_from(["auto", "json", "text"])),
        log_level=draw(st.sampled_from(["debug", "info", "warning", "error"])),
        burst=draw(st.booleans()),
    )


@given(settings())
def test_what_the_operator_writes_the_worker_reads(value: WorkerSettings) -> None:
    again = WorkerSettings.from_env(value.to_env())
    assert again == value


@pytest.mark.parametrize("name", [field.name for field in fields(WorkerSettings)])
def test_no_setting_is_left_out_of_what_travels(name: str) -> None:
    default = getattr(WorkerSettings(), name)
    found = find(settings(), lambda value: getattr(value, name) != default, settings=UNSHRUNK)
    assert f"{PREFIX}{name.upper()}" in found.to_env()


def test_defaults_need_no_variables() -> None:
    assert WorkerSettings().to_env() == {}
    assert WorkerSettings.from_env({}) == WorkerSettings()
    assert WorkerSettings.from_env({"PATH": "/bin", "MILLGATE_CHILDREN": ""}) == WorkerSettings()


def test_a_flag_comes_before_its_variable() -> None:
    read = WorkerSettings.from_env(
        {"MILLGATE_CHILDREN": "3", "MILLGATE_SLOTS": "4"}, children="5", slots=None
    )
    assert (read.children, read.slots) == (5, 4)


@pytest.mark.parametrize(
    ("variable", "text", "complaint"),
    [
        ("CHILDREN", "two", "MILLGATE_CHILDREN: 'two' is not a whole number"),
        ("CHILDREN", "0", "--children: 1 to 256"),
        ("CHILDREN", "257", "--children: 1 to 256"),
        ("SLOTS", "1001", "--slots: 1 to 1000"),
        ("SLOTS", "0", "--slots"),
        ("MAX_RSS", "400", "MILLGATE_MAX_RSS: '400' is less than any process has; write the unit"),
        ("MAX_RSS", "400Mi", None),
        ("MAX_RSS", "lots", "MILLGATE_MAX_RSS: 'lots' is not an amount of memory"),
        ("MEMORY", "101%", "MILLGATE_MEMORY"),
        ("DRAIN_TIMEOUT", "soon", "MILLGATE_DRAIN_TIMEOUT: 'soon' is not a duration"),
        ("PRELOAD", "maybe", "MILLGATE_PRELOAD: 'maybe' is neither true nor false"),
        ("ORDERED", "yes", "--ordered: needs --topics"),
        ("APP", "tasks", "--app: 'tasks' names no app; write it like package.module:app"),
        ("APP", "tasks:", "--app: 'tasks:' names no app"),
        ("MAX_TASKS", "-5", "--max-tasks: not below 0"),
        ("NAME", "a\nb", "--name: no line breaks"),
        ("TOPICS", "mail.*,[ab]?-x", None),
        ("TOPICS", "in voices", "'in voices' fits no topic"),
        ("EXCLUDE", ",", "MILLGATE_EXCLUDE: ',' names no topic"),
        ("LOG_FORMAT", "xml", "--log-format"),
        ("LOG_LEVEL", "loud", "--log-level"),
    ],
)
def test_what_is_wrong_is_named(variable: str, text: str, complaint: str | None) -> None:
    environ = {PREFIX + variable: text}
    if complaint is None:
        WorkerSettings.from_env(environ)
        return
    with pytest.raises(InvalidSettings) as refused:
        WorkerSettings.from_env(environ)
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({"max_rss": "400Mi", "hard_max_rss": "400Mi"}, "--max-rss"),
        ({"max_rss": "80%", "hard_max_rss": "70%"}, "--max-rss"),
        ({"broker": "local://", "broker_file": "/url"}, "--broker"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(fields: dict[str, Any], flag: str) -> None:
    with pytest.raises(InvalidSettings, match=flag):
        WorkerSettings.from_env({}, **fields)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("MILLGATE_CHILDRENS", "MILLGATE_CHILDREN"),
        ("MILLGATE_MAXRSS", "MILLGATE_MAX_RSS"),
        ("MILLGATE_TOPIC", "MILLGATE_TOPICS"),
        ("MILLGATE_CHILDREN", None),
        ("MILLGATE_BROKERD", None),
        ("MILLGATE_BROKER_PORT", None),  # of a Service named millgate-broker
        ("MILLGATE_BROKER_SERVICE_HOST", None),
        ("CHILDREN", None),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_told(variable: str, meant: str | None) -> None:
    assert misspelt({variable: "1", "MILLGATE_APP": "a:app"}).get(variable) == meant


def test_a_wrong_flag_is_named_as_a_flag() -> None:
    with pytest.raises(InvalidSettings, match="--max-tasks: 'x'"):
        WorkerSettings.from_env({}, max_tasks="x")


@pytest.mark.parametrize("flag", ["topics", "exclude", "queue", "broker", "metrics"])
def test_an_empty_flag_means_neither_all_nor_none(flag: str) -> None:
    with pytest.raises(InvalidSettings, match=f"--{flag} is empty: give a value, or leave it out"):
        WorkerSettings.from_env({}, **{flag: ""})


def test_a_flag_that_names_the_broker_comes_before_both_variables() -> None:
    environ = {"MILLGATE_BROKER": "local://", "MILLGATE_QUEUE": "q"}
    read = WorkerSettings.from_env(environ, broker_file="/url")
    assert (read.broker, read.broker_file, read.queue) == ("", "/url", "q")
    read = WorkerSettings.from_env({"MILLGATE_BROKER_FILE": "/url"}, broker="local://")
    assert (read.broker, read.broker_file) == ("local://", "")


def test_every_child_of_the_largest_worker_is_watched_over_and_its_follower_too() -> None:
    assert ROWS >= 2 * MAX_CHILDREN
