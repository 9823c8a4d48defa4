"""An API server with our kinds, an operator that works for it, and a namespace for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from node.local import LocalCluster
from support.operator import Operator, Place, define
from support.wait import eventually


@pytest.fixture(scope="session")
def server(api_server: LocalCluster) -> LocalCluster:
    """The API server, serving TaskQueue and Topic."""
    define(api_server)
    return api_server


@pytest.fixture(scope="session")
def operator(server: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for all namespaces."""
    log = tmp_path_factory.mktemp("operator") / "log"
    made = Operator(server.kubeconfig, log, tick="500ms", zero_tick="500ms", broker_deadline="3s")
    made.start()
    try:
        eventually(made.leads, 20)
        yield made
    finally:
        made.close()
        print(made.text())


@pytest.fixture
def empty(server: LocalCluster) -> Iterator[Place]:
    """A namespace that no operator knows of."""
    with server.namespace() as name:
        place = Place(server, name)
        yield place
        # without controllers a namespace never goes, and the operator would go on with what is in it
        place.kubectl("delete", "taskqueues,topics", "--all", "--wait=false")


@pytest.fixture
def place(operator: Operator, empty: Place) -> Place:
    """A namespace in which the operator works."""
    return empty


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Where further operators log."""
    return tmp_path
