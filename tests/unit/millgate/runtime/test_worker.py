"""What a worker decides while its threads begin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from millgate.runtime.worker import Worker


def test_a_broker_thread_that_begins_again_has_one_renew_thread() -> None:
    started: list[str] = []

    def fail() -> None:
        raise RuntimeError("an error of ours")

    worker: Any = SimpleNamespace(
        _reach=lambda: True,
        _thread=lambda name, _target: started.append(name),
        parts=SimpleNamespace(leases=SimpleNamespace(run=None), loop=SimpleNamespace(run=fail)),
        status=SimpleNamespace(registered=False),
    )
    for _ in range(3):
        with pytest.raises(RuntimeError):
            Worker._serve_broker(worker)
    assert started == ["renew"]
