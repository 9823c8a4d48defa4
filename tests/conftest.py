"""Options and fixtures for every test; no helpers (those are in support/)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = ["node.fixtures"]

TESTS = Path(__file__).parent
#: `--hypothesis-profile=long` looks much further, in minutes instead of seconds.
settings.register_profile("long", max_examples=2_000, deadline=None)
#: Folders whose tests share one expensive thing (a cluster, a machine's memory): one process runs them in turn.
TOGETHER = {"cluster": "cluster", "e2e": "e2e"}
#: Seconds for a test of what may first have to make images and wait for pods of a new node.
PATIENCE = {"e2e": 900}
#: A shell that starts tests in the background has them ignore it, and everything that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
        if part in PATIENCE and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE[part]))
