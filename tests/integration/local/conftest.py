"""A brokerd of each test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.local import Daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Not started yet; ended with the test."""
    made = Daemon(tmp_path)
    yield made
    made.close()
