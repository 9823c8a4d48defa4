"""Modules that are put off are there when they are asked for."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from millgate.runtime.frugal import annotations_of

PROGRAM = """
import sys
from millgate.runtime.frugal import put_off
put_off("inspect", "copy")
import dataclasses
assert "ast" not in sys.modules
@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    "A point."
    x: int = 0
assert not {"ast", "weakref"} & set(sys.modules)
import inspect
from inspect import signature
assert str(signature(Point)) == "(x: 'int' = 0) -> None" or str(signature(Point)) == "(x: int = 0) -> None"
assert inspect.isclass(Point)
assert "ast" in sys.modules
assert inspect.get_annotations.__module__ == "inspect"
from copy import deepcopy
assert deepcopy([Point(1)]) == [Point(1)]
assert sys.modules["inspect"].__file__.endswith("inspect.py")
"""


class Plain:
    size: int
    name: str = ""


class Below(Plain):
    pass


@pytest.mark.parametrize("obj", [Plain, Below, int, annotations_of, inspect])
def test_annotations_are_those_that_inspect_finds(obj: object) -> None:
    assert annotations_of(obj) == inspect.get_annotations(obj)  # type: ignore[arg-type]
    assert annotations_of(obj) is not annotations_of(obj)


def test_annotations_are_evaluated_if_that_is_asked_for() -> None:
    assert annotations_of(Plain, eval_str=True) == {"size": int, "name": str}


def test_a_module_that_is_put_off_works_when_it_is_used() -> None:
    subprocess.run([sys.executable, "-I", "-c", PROGRAM], check=True)


SUPERVISOR = """
import sys
from millgate.runtime.frugal import Later, put_off_tls
put_off_tls("{scheme}://server")
import {module}
assert type(sys.modules["ssl"]) is Later
assert "_ssl" not in sys.modules
import ssl
assert issubclass(ssl.SSLError, OSError)
assert ssl.create_default_context().verify_mode is ssl.CERT_REQUIRED
assert type(sys.modules["ssl"]) is not Later
put_off_tls("{scheme}://server")
"""


@pytest.mark.parametrize(
    ("scheme", "module"),
    [
        ("postgresql", "millgate.brokers.postgres"),
        ("redis", "millgate.brokers.redis"),
        ("local", "millgate.brokers.local"),
    ],
)
def test_tls_is_put_off_until_it_is_used(scheme: str, module: str) -> None:
    program = SUPERVISOR.format(scheme=scheme, module=module)
    subprocess.run([sys.executable, "-I", "-c", program], check=True)
