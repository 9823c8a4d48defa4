"""Where a task's own logger speaks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from millgate.tasklog import logger


@pytest.fixture
def alone() -> Iterator[Callable[[], logging.Logger]]:
    """Makes the root logger what an app finds; called in the test, since a test run adds handlers just before."""
    root, tasks = logging.getLogger(), logging.getLogger("millgate.task")
    before: list[logging.Handler] = []

    def clear() -> logging.Logger:
        before[:] = root.handlers
        root.handlers.clear()
        return root

    yield clear
    root.handlers[:] = before
    tasks.handlers.clear()
    tasks.setLevel(logging.NOTSET)


def test_without_logging_of_the_app_records_go_to_standard_error(
    alone: Callable[[], logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    alone()
    for _ in range(2):  # the second use adds nothing
        logger("sum").info("done: %d", 3)
    logger("sum").debug("hidden")
    assert capsys.readouterr().err == "INFO done: 3\n" * 2


def test_an_error_comes_with_its_traceback(
    alone: Callable[[], logging.Logger], capsys: pytest.CaptureFixture[str]
) -> None:
    alone()
    try:
        int("odd")
    except ValueError:
        logger("sum").exception("failed")
    written = capsys.readouterr().err
    assert written.startswith("ERROR failed\nTraceback")
    assert "ValueError: invalid literal" in written


@pytest.mark.parametrize("first", [True, False])
def test_the_apps_own_handlers_get_the_records_and_nobody_else(
    alone: Callable[[], logging.Logger], capsys: pytest.CaptureFixture[str], *, first: bool
) -> None:
    root = alone()
    if not first:
        logger("sum").info("before the app has set anything up")
        capsys.readouterr()
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    root.addHandler(handler)
    logger("sum").warning("heard")
    assert seen == ["heard"]
    assert capsys.readouterr().err == ""
