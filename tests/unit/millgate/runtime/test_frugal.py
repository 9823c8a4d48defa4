"""Modules that are put off are there when they are asked for."""

from __future__ import annotations

import subprocess
import sys

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
import inspect
from inspect import signature
assert str(signature(Point)) == "(x: 'int' = 0) -> None" or str(signature(Point)) == "(x: int = 0) -> None"
assert inspect.isclass(Point)
assert "ast" in sys.modules
assert "weakref" not in sys.modules
from copy import deepcopy
assert deepcopy([Point(1)]) == [Point(1)]
assert sys.modules["inspect"].__file__.endswith("inspect.py")
"""


def test_a_module_that_is_put_off_works_when_it_is_used() -> None:
    subprocess.run([sys.executable, "-I", "-c", PROGRAM], check=True)
