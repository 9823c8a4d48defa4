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


def test_what_a_child_imports_is_small() -> None:
    heavy = {
        "asyncio",
        "socket",
        "ssl",
        "http",
        "logging",
        "pathlib",
        "hashlib",
        "decimal",
        "uuid",
        "zoneinfo",
    }
    drivers = {"psycopg", "redis", "pika", "kubernetes", "kopf", "pydantic"}
    modules = imported_by("import millgate.execute, millgate.app")
    assert modules & (heavy | drivers) == set()
    assert not any(name.startswith("millgate.brokers") for name in modules)
