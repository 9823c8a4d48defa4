"""The public names: complete, and free until they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import millgate


def test_every_name_is_there() -> None:
    for name in millgate.__all__:
        assert getattr(millgate, name) is not None
        assert name in dir(millgate)


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Celery'"):
        millgate.Celery  # noqa: B018 -- the look-up is what is tested


def imported_by(code: str) -> set[str]:
    script = f"import sys; before = set(sys.modules); {code}; print(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_package_alone_imports_nothing_of_itself() -> None:
    assert {name for name in imported_by("import millgate") if name.startswith("millgate")} == {
        "millgate"
    }


#: What a child with plain tasks and one slot has beyond the interpreter, itself and msgpack: a name more is memory that
#: every child of every user pays for. An app that needs one of the others imports it itself.
CHILD_IMPORTS = {
    "__future__", "_collections", "_contextvars", "_datetime", "_functools", "_json", "_operator", "_sre",
    "_struct", "collections", "collections.abc", "contextvars", "copy", "copyreg", "dataclasses", "datetime",
    "enum", "faulthandler", "functools", "importlib", "importlib._bootstrap", "importlib._bootstrap_external",
    "inspect", "itertools", "json", "json.decoder", "json.encoder", "json.scanner", "keyword", "math", "mmap",
    "operator", "re", "re._casefix", "re._compiler", "re._constants", "re._parser", "reprlib", "resource",
    "select", "signal", "struct", "types", "warnings",
}  # fmt: skip
CHILD = (
    "from millgate.runtime.frugal import put_off; put_off('inspect', 'copy');"
    " import millgate.runtime.child, millgate.runtime.load, millgate.runtime.solo;"
    " import millgate.runtime.lent, millgate.app;"
    " millgate.app.App().task(name='nothing')(lambda: None)"
)
_FOREIGN = ("millgate", "msgpack", "cython_runtime", "_cython")


def test_what_a_child_imports_is_small() -> None:
    modules = imported_by(CHILD)
    ours = {name for name in modules if not name.startswith(_FOREIGN)}
    assert ours - CHILD_IMPORTS == set()
    assert not any(name.startswith("millgate.brokers") for name in modules)
    assert "ast" not in modules  # inspect and copy are put off: something asked for them


def test_what_has_asked_for_a_module_that_is_put_off_would_be_seen() -> None:
    assert "ast" in imported_by(f"{CHILD}; inspect = __import__('inspect'); inspect.signature")
