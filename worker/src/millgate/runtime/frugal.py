"""Puts off modules that a child may never need: their memory is the user's. Called before anything else is imported."""

from __future__ import annotations

import importlib
import sys
import types

from millgate.hints import Any, Final


class Later(types.ModuleType):
    """Stands for a module until something of it is asked for; from then on it has all that the module has."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks around; nobody uses the module yet
            raise AttributeError(name)
        return getattr(self.load(), name)

    def load(self) -> types.ModuleType:
        """The module itself, which has its own name from now on."""
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        module = importlib.import_module(name)
        self.__dict__.update(module.__dict__)
        return module


def annotations_of(obj: Any, **settings: Any) -> dict[str, Any]:
    """As inspect's get_annotations; of a class, as it stands there, without that module."""
    if isinstance(obj, type) and not settings:
        return dict(vars(obj).get("__annotations__", {}))
    found = importlib.import_module("inspect")
    module = found.load() if isinstance(found, Later) else found
    return dict(module.get_annotations(obj, **settings))


#: What is there without the module. Dataclasses ask for this in Python 3.13; a later one keeps annotations elsewhere.
_AT_HAND: Final[dict[str, dict[str, Any]]] = (
    {"inspect": {"get_annotations": annotations_of}} if sys.version_info < (3, 14) else {}
)


def put_off(*names: str) -> None:
    """Have these modules imported at their first use.

    `inspect` alone is more than a megabyte with what it brings; dataclasses imports it and hardly ever uses it.
    """
    for name in names:
        if name not in sys.modules:
            module = sys.modules[name] = Later(name)
            vars(module).update(_AT_HAND.get(name, {}))


def put_off_tls(broker: str) -> None:
    """For a supervisor, where no user code runs: Python's TLS, with asyncio 4 MB, is imported by what really uses it.

    psycopg imports both, asyncio to offer a client of that kind and `ssl` for the sake of an OpenSSL that needed its
    callbacks; the connection's own TLS is libpq's.
    """
    if "ssl" in sys.modules:
        return
    if broker.startswith("postgres"):
        sys.modules["ssl"] = None  # type: ignore[assignment] # not to be had: asyncio does without
        try:
            importlib.import_module("asyncio")
        finally:
            del sys.modules["ssl"]
    put_off("ssl")
