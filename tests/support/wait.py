"""The only polling in tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], timeout: float = 10.0, every: float = 0.02) -> T:
    """Call `check` until it answers something true, and answer that; fail with its last answer or error."""
    end = time.monotonic() + timeout
    while True:
        try:
            answer, problem = check(), None
        except Exception as error:  # noqa: BLE001 -- the last one is raised below
            answer, problem = None, error
        if answer:
            return answer
        if time.monotonic() >= end:
            if problem is not None:
                raise problem
            raise AssertionError(f"not within {timeout} s; the last answer was {answer!r}")
        time.sleep(every)
