"""An overlay over an object, as a strategic merge patch would lay it."""

from __future__ import annotations

from typing import Any

import pytest

from millgate_operator.desired.merge import merged

BASE = {
    "replicas": 1,
    "labels": {"a": "1"},
    "containers": [
        {"name": "worker", "image": "x", "env": [{"name": "A", "value": "1"}], "args": ["a", "b"]},
        {"name": "side", "image": "y"},
    ],
    "tolerations": [{"key": "a"}],
}


@pytest.mark.parametrize(
    ("overlay", "path", "wanted"),
    [
        ({"replicas": 2}, ["replicas"], 2),
        ({"labels": {"b": "2"}}, ["labels"], {"a": "1", "b": "2"}),
        ({"labels": {"a": None}}, ["labels"], {}),
        ({"new": {"x": 1}}, ["new"], {"x": 1}),
        ({"tolerations": [{"key": "b"}]}, ["tolerations"], [{"key": "b"}]),
        ({"containers": [{"name": "worker", "tty": True}]}, ["containers", 0, "image"], "x"),
        ({"containers": [{"name": "worker", "tty": True}]}, ["containers", 0, "tty"], True),
        ({"containers": [{"name": "third"}]}, ["containers", 2], {"name": "third"}),
        (
            {"containers": [{"name": "worker", "env": [{"name": "A", "value": "2"}]}]},
            ["containers", 0, "env"],
            [{"name": "A", "value": "2"}],
        ),
        (
            {"containers": [{"name": "worker", "env": [{"name": "B"}]}]},
            ["containers", 0, "env"],
            [{"name": "A", "value": "1"}, {"name": "B"}],
        ),
        ({"containers": [{"name": "worker", "args": ["c"]}]}, ["containers", 0, "args"], ["c"]),
    ],
)
def test_an_overlay_is_merged(overlay: dict[str, Any], path: list[Any], wanted: Any) -> None:
    found: Any = merged(BASE, overlay)
    for step in path:
        found = found[step]
    assert found == wanted


def test_neither_side_is_changed() -> None:
    import copy

    base, overlay = (
        copy.deepcopy(BASE),
        {"labels": {"b": "2"}, "containers": [{"name": "worker", "image": "z"}]},
    )
    kept = copy.deepcopy(overlay)
    merged(base, overlay)
    assert base == BASE
    assert overlay == kept
