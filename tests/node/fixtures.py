"""Fixtures for pytest: an API server alone, a cluster that runs pods, and a fresh namespace for each test."""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Iterator

import pytest

from node import local, programs, provider
from node.cluster import Cluster
from node.local import LocalCluster
from node.packages import MissingPackages
from node.programs import BuildFailed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --cluster."""
    parser.addoption(
        "--cluster",
        choices=["auto", *provider.KINDS],
        default="auto",
        help="where pods run: node (namespaces of this machine), kind (needs kind and docker), "
        "current (what KUBECONFIG names); auto takes kind where a Docker engine answers, else node",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the chosen tests need before the first one's time limit starts to run."""
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if not wanted & {"api_server", "cluster"} or programs.built():
        return
    if (
        "api_server" not in wanted
        and provider.chosen(session.config.getoption("--cluster")) != "node"
    ):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    shown = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
    with shown, contextlib.suppress(BuildFailed, MissingPackages):  # the fixtures say it again
        programs.build(_say)


@pytest.fixture(scope="session")
def api_server() -> Iterator[LocalCluster]:
    """An API server without controllers and pods; it ends with the session, however that ends."""
    made = local.up(f"test-{secrets.token_hex(4)}", nodes=0, say=_say, ends_with_us=True)
    try:
        yield made
    finally:
        made.down()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster that runs pods, as --cluster says."""
    made = provider.provide(request.config.getoption("--cluster"), _say)
    try:
        yield made
    finally:
        made.down()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A fresh namespace of the cluster, deleted afterwards."""
    with cluster.namespace() as name:
        yield name


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
