"""The resource definitions on a real API server: what is taken, what is refused and with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node.local import LocalCluster
from support.manifests import MALFORMED, WRONG, Wrong

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(api_server: LocalCluster) -> LocalCluster:
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        api_server.kubectl("apply", "-f", str(path))
    api_server.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=20s")
    return api_server


@pytest.fixture
def namespace(server: LocalCluster):
    with server.namespace() as name:
        yield name


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.what)
def test_a_wrong_manifest_is_refused_with_words_that_help(
    server: LocalCluster, namespace: str, wrong: Wrong
) -> None:
    refusal = server.refusal(_in(namespace, wrong.manifest))
    assert wrong.words in refusal


@pytest.mark.parametrize(("what", "manifest", "words"), MALFORMED)
def test_a_malformed_manifest_is_refused_naming_the_field(
    server: LocalCluster, namespace: str, what: str, manifest: dict[str, Any], words: str
) -> None:
    refusal = server.refusal(_in(namespace, manifest))
    assert words in refusal


def _in(namespace: str, manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}
