"""The only polling in tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], timeout: float = 10.0, every: float = 0.02) -> T:
    """Call `check` until it answers something true, and answer that; fail with its last answer or error, which is one
    of after `timeout` seconds: a machine that stood still meanwhile is asked again."""
    end = time.monotonic() + timeout
    while True:
        late = time.monotonic() >= end
        try:
            answer, problem = check(), None
        except Exception as error:  # noqa: BLE001 -- the last one is raised below
            answer, problem = None, error
        if answer:
            return answer
        if late:
            if problem is not None:
                raise problem
            raise AssertionError(f"not within {timeout} s; the last answer was {answer!r}")
        time.sleep(every)
