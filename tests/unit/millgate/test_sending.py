"""Settings of single sends: what cannot be meant is refused where it is written, not in the worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from millgate import App, Depends, testing
from millgate.brokers.base import State
from millgate.errors import InvalidInput
from millgate.sending import Sending, parse
from millgate.task import Task


@pytest.fixture
def task() -> Task[..., Any]:
    @App("memory://").task(name="work")
    def work(value: Any = None) -> None: ...

    return work


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"key": 5}, r"key=5: give a text, for example str\(5\)"),
        ({"task_id": 7}, "task_id=7: give a text"),
        ({"task_id": ""}, "task_id is empty"),
        ({"topic": "no spaces"}, "topic 'no spaces': use 1 to 128 letters"),
        ({"retries": "three"}, "retries='three': use a whole number"),
        ({"retries": True}, "retries=True: use a whole number"),
        ({"unique_for": "1h"}, "give unique=True or a rule too"),
        ({"backoff": {"initial": -1}}, "-1 is below 0"),
        ({"backoff": {"max": float("inf")}}, "inf is not below"),
        ({"countdown": 3}, "options knows no countdown; it takes at, backoff"),
    ],
)
def test_a_setting_that_cannot_hold_is_refused_by_name(
    task: Task[..., Any], settings: Any, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        task.options(**settings)


def test_times_are_seconds_texts_or_timedeltas() -> None:
    for delay in (90, "1m30s", timedelta(seconds=90)):
        assert parse(Sending(), {"delay": delay, "timeout": delay}) == Sending(
            delay=90.0, limits={"hard_timeout": 90.0}
        )


def test_no_time_is_not_at_once(task: Task[..., Any]) -> None:
    with testing.memory(task.home) as bench:  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="send_in takes a time first"):
            task.send_in(None)  # type: ignore[arg-type]
        task.send_in(timedelta(hours=1))
        assert len(bench.broker.peek("default", State.DELAYED)) == 1


def test_many_calls_are_a_collection(task: Task[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="several calls, not a NoneType"):
        task.send_many(None)  # type: ignore[arg-type]


def a_plain_function(context: Any) -> None: ...


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda app: app.task("video"), r"@app\.task\('video'\): settings are given by name"),
        (lambda app: app.task(topic="no spaces")(a_plain_function), "topic 'no spaces'"),
        (lambda app: app.task(cron="@daily")(a_plain_function), "give 'context' a default"),
        (lambda app: app.middleware(a_plain_function), "is no middleware"),
        (lambda app: app.middleware(5), "5 is no middleware"),
        (lambda app: app.override(a_plain_function, 6), "lambda: 6"),
        (
            lambda app: Depends(6),  # type: ignore[arg-type]
            "a function that makes the value, not 6",
        ),
        (lambda app: App(5), "a broker's URL, for example 'local://', not 5"),  # type: ignore[arg-type]
        (lambda app: App(topic=""), "topic ''"),
        (lambda app: App(deadline=0), "deadline=0: use more than 0"),
        (lambda app: App(deadline="soon"), "'soon' is not a duration"),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused(
    declare: Callable[[Any], object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        declare(App("memory://"))
