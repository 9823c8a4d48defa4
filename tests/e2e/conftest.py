"""Millgate installed on a real cluster as a user installs it: images, Helm, manifests."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from node import images, services
from node.cluster import Cluster
from support.install import Installed

ROOT = Path(__file__).parents[2]
APPS = Path(__file__).parent / "apps"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def blocks(language: str) -> list[str]:
    """The README's blocks of a language, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="session")
def app_image(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The README's app and those of `apps` in one image, on the cluster's nodes."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "hello").mkdir()
    (folder / "hello/tasks.py").write_text(blocks("python")[0], encoding="utf-8")
    for source in sorted(APPS.rglob("*.py")):
        copy = folder / source.relative_to(APPS)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    reference, archive = images.bake("e2e-app", folder, _say)
    cluster.load(archive)
    return reference


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Iterator[Installed]:
    """The chart of this repository, with this repository's operator, in a namespace of its own."""
    cluster.load(images.build("operator", _say))
    cluster.load(services.postgres(_say))
    made = Installed(cluster, ROOT / "charts/millgate", images.reference("operator"))
    made.install()
    yield made
    made.uninstall()


@pytest.fixture
def place(cluster: Cluster) -> Iterator[str]:
    """A namespace that admits only what the restricted Pod Security Standard admits."""
    with cluster.namespace("e2e", pod_security="restricted") as name:
        yield name


@pytest.fixture
def readme_queue(app_image: str) -> dict[str, Any]:
    """The README's TaskQueue as it stands there, but for the image, which is ours."""
    manifest: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    manifest["spec"]["workers"]["image"] = app_image
    return manifest


@pytest.fixture
def readme_topic() -> dict[str, Any]:
    """The README's Topic as it stands there."""
    manifest: dict[str, Any] = yaml.safe_load(blocks("yaml")[1])
    return manifest
