"""The stand-ins for `typing`: as good as the real ones where Python looks at them."""

from __future__ import annotations

import typing
from collections.abc import Callable

from millgate import App, Task, hints
from millgate.clock import Clock, SystemClock
from millgate.spec import TaskSettings
from millgate.task import SendSettings


def test_every_name_is_one_of_typing() -> None:
    assert set(hints.__all__) <= set(typing.__all__)
    assert all(hasattr(hints, name) for name in hints.__all__)


def test_a_task_can_be_written_with_what_it_takes_and_gives() -> None:
    app = App("memory://")

    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    def uses(task: Task[[int], int]) -> None: ...

    hint = typing.get_type_hints(uses, localns={"Task": Task})["task"]
    assert (typing.get_origin(hint), typing.get_args(hint)) == (Task, ([int], int))
    assert isinstance(double, typing.get_origin(hint))


def test_the_settings_have_their_fields() -> None:
    assert {"topic", "retries", "cron"} <= set(typing.get_type_hints(TaskSettings))
    assert {"task_id", "connection"} <= set(typing.get_type_hints(SendSettings))
    assert TaskSettings(topic="video") == {"topic": "video"}


def test_a_clock_needs_no_base() -> None:
    clock: Clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    ask: Callable[[], float] = clock.now
    assert ask() > 0
