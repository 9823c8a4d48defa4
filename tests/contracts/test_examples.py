"""The manifests that people copy are good ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from millgate.brokers import SCHEMES
from millgate_operator.names import GROUP
from millgate_operator.spec import parse

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples").rglob("*.yaml"))


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def of_ours(file: Path) -> list[dict[str, Any]]:
    return [one for one in documents(file) if one["apiVersion"].startswith(GROUP)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_an_example_has_no_field_that_is_unknown_or_wrong(file: Path) -> None:
    assert of_ours(file)
    for manifest in of_ours(file):
        parse(manifest, strict=True)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_an_examples_secret_is_the_one_that_its_queue_names(file: Path) -> None:
    secrets = {one["metadata"]["name"]: one for one in documents(file) if one["kind"] == "Secret"}
    for queue in of_ours(file):
        connection = queue["spec"].get("broker", {}).get("connection")
        if connection is None:
            continue
        url = secrets[connection["secretRef"]["name"]]["stringData"]["uri"]
        assert url.partition(":")[0] in SCHEMES
