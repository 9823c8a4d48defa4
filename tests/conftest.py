"""Options and fixtures for every test; no helpers (those are in support/)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["node.fixtures"]

TESTS = Path(__file__).parent
#: `--hypothesis-profile=long` looks much further, in minutes instead of seconds.
settings.register_profile("long", max_examples=2_000, deadline=None)
#: Folders whose tests share one expensive thing (a cluster, a machine's memory): one process runs them in turn.
TOGETHER = {"cluster": "cluster", "e2e": "e2e"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        action="append",
        default=None,
        help="conformance tests on this broker only (repeatable)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests that share something expensive on one process, when there are several."""
    for item in items:
        part = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if part in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(TOGETHER[part]))
