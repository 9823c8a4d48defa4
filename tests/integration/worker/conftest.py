"""Queues of one broker or of each, workers that end with the test, and an eye on what tasks leave behind."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.bench import Bench, MemoryBench
from support.brokers import FACTORIES
from support.restarts import OWN


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A fresh queue, on the broker that `every_broker` says, else on the shared brokerd."""
    name = getattr(request, "param", "local")
    made = MemoryBench(tmp_path) if name == "memory" else Bench(FACTORIES[name](tmp_path), tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(params=sorted(OWN))
def own_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A fresh queue on each broker in turn, on a server of the test's own, which may be ended and started."""
    made = Bench(OWN[request.param](tmp_path), tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def sleepers() -> Iterator[Callable[[], list[int]]]:
    """Finds processes that run `sleep TAG` for a tag of this test's own, and ends those that are left."""
    tag = f"77{secrets.randbelow(10**6):06}"

    def find() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if words[:2] == [b"sleep", tag.encode()]:
                    found.append(int(entry.name))
        return found

    find.tag = tag  # type: ignore[attr-defined]
    yield find
    for pid in find():
        os.kill(pid, 9)
