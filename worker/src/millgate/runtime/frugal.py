"""Puts off modules that a child may never need: their memory is the user's. Called before anything else is imported."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any


class Later(types.ModuleType):
    """Stands for a module until something of it is asked for; from then on it has all that the module has."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks around; nobody uses the module yet
            raise AttributeError(name)
        return getattr(self._load(), name)

    def _load(self) -> types.ModuleType:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        module = importlib.import_module(name)
        self.__dict__.update(module.__dict__)
        return module


def put_off(*names: str) -> None:
    """Have these modules imported at their first use.

    `inspect` alone is more than a megabyte with what it brings; dataclasses imports it and hardly ever uses it.
    """
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = Later(name)
