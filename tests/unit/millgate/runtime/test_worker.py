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
        _schedule=None,
        parts=SimpleNamespace(
            leases=SimpleNamespace(run=None),
            loop=SimpleNamespace(run=fail),
            reactor=SimpleNamespace(post=lambda _call: None),
        ),
        status=SimpleNamespace(registered=False),
    )
    for _ in range(3):
        with pytest.raises(RuntimeError):
            Worker._serve_broker(worker)
    assert started == ["renew"]


@pytest.mark.parametrize("child_first", [True, False])
def test_schedules_are_looked_at_when_the_broker_is_prepared_and_a_child_knows_them(
    child_first: bool,
) -> None:
    started: list[str] = []
    timers = SimpleNamespace(know=lambda _tasks: True, run=None)
    worker: Any = SimpleNamespace(
        _reach=lambda: True,
        _thread=lambda name, _target: started.append(name),
        _leave=lambda: None,
        _schedules=False,
        _scheduling=False,
        parts=SimpleNamespace(
            leases=SimpleNamespace(run=None, stop=lambda: None),
            loop=SimpleNamespace(run=lambda: None),
            reactor=SimpleNamespace(post=lambda call: call()),
            intake=SimpleNamespace(tasks={}),
            timers=timers,
        ),
        status=SimpleNamespace(registered=False),
    )
    worker._schedule = lambda: Worker._schedule(worker)
    steps = [
        lambda: Worker._app_known(worker, {"tasks": []}),
        lambda: Worker._serve_broker(worker),
    ]
    first, second = steps if child_first else reversed(steps)
    first()
    assert "timers" not in started
    second()
    assert started.count("timers") == 1
    Worker._app_known(worker, {"tasks": []})  # another child
    assert started.count("timers") == 1
