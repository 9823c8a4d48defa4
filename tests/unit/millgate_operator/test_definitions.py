"""An operator beside definitions of another age."""

from __future__ import annotations

from typing import Any

import pytest

from millgate_operator import names
from millgate_operator.cluster import ClusterError
from millgate_operator.definitions import NAMES, check, outdated
from support.clock import FakeClock
from support.shelf import Shelf


def definition(name: str, annotations: dict[str, str] | None) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "namespace": "", "annotations": annotations},
    }


def of_version(version: int) -> list[dict[str, Any]]:
    return [definition(name, {names.ANNOTATION_SCHEMA: str(version)}) for name in NAMES]


def refuse_definitions(verb: str, kind: str) -> None:
    if kind == "CustomResourceDefinition":
        raise ClusterError(403, "Forbidden", "no right to it")


@pytest.mark.parametrize("newer", [0, 1])
def test_definitions_of_this_version_or_a_newer_one_are_fine(newer: int) -> None:
    check(Shelf(*of_version(names.SCHEMA_VERSION + newer)), FakeClock(), None)


def test_an_older_definition_is_named_with_what_to_do() -> None:
    shelf = Shelf(of_version(names.SCHEMA_VERSION)[0], of_version(names.SCHEMA_VERSION - 1)[1])
    with pytest.raises(ClusterError) as caught:
        check(shelf, FakeClock(), None)
    text = str(caught.value)
    assert "topics.millgate.dev is of schema version 0, this operator needs 1" in text
    assert "apply the files of crds/" in text
    assert not caught.value.passing


@pytest.mark.parametrize("annotations", [None, {}, {names.ANNOTATION_SCHEMA: "new"}])
def test_a_definition_that_does_not_say_its_version_is_old(
    annotations: dict[str, str] | None,
) -> None:
    assert "schema version 0" in outdated("x", definition("x", annotations))


def test_whoever_may_not_read_definitions_goes_on() -> None:
    shelf = Shelf(*of_version(0))
    shelf.fault = refuse_definitions
    check(shelf, FakeClock(), "shop")
    assert ("get", "CustomResourceDefinition") in shelf.requests


def test_without_definitions_it_is_said_which_kind_is_not_there() -> None:
    clock, shelf = FakeClock(), Shelf()

    def fault(verb: str, kind: str) -> None:
        raise ClusterError(404, "NotFound", "the server could not find the requested resource")

    shelf.fault = fault
    began = clock.monotonic()
    with pytest.raises(ClusterError, match="the cluster knows no TaskQueue; apply the files"):
        check(shelf, clock, None)
    assert 5 <= clock.monotonic() - began < 30  # an API server that starts may serve it in a moment
