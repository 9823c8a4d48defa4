"""Several jobs in one loop: whoever reads the link, every job begins; whatever is told to stop, every job reports."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from millgate.app import App
from millgate.clock import SystemClock
from millgate.message import Claim
from millgate.runtime import wire
from millgate.runtime.link import Link
from millgate.runtime.looped import Looped
from millgate.runtime.station import Station
from millgate.runtime.table import Table
from support.builders import a_message


class Scene:
    """A child's loop in a thread of its own, with its supervisor's end in the test's hands."""

    def __init__(self, app: App) -> None:
        self.ours, self._theirs = socket.socketpair()
        self.ours.settimeout(10)
        self.table = Table.create(4)
        self._reader = wire.Reader(self.ours.recv_into)
        self._frames: list[Any] = []
        self._app = app
        self._made = threading.Event()
        self._thread = threading.Thread(target=self._live)
        self._thread.start()
        assert self._made.wait(10)

    def _live(self) -> None:
        self.link = Link(self._theirs.fileno(), Table(self.table.descriptor, 4))
        self.looped = Looped(Station(self._app, self.link, self.link._table, SystemClock()), 4)
        asyncio.set_event_loop(self.looped._loop)
        self._made.set()
        self.looped.work()
        self.looped.end()

    def send(self, *frame: Any) -> None:
        self.ours.sendall(wire.encode(list(frame)))

    def run(self, seq: int, task: str) -> None:
        record = a_message(task=task).record()
        self.send("run", [wire.job(seq, Claim(f"m{seq}", "t", "token", record))])

    def hear(self) -> Any:
        while not self._frames:
            self._frames += self._reader.read() or []
        return self._frames.pop(0)

    def close(self) -> None:
        self.send("end")
        self._thread.join(10)
        assert not self._thread.is_alive()
        self.ours.close()
        self._theirs.close()


@pytest.fixture
def app() -> App:
    return App("memory://")


@pytest.fixture
def scene(app: App) -> Iterator[Scene]:
    made = Scene(app)
    yield made
    made.close()


def test_a_job_that_comes_while_a_coroutine_asks_begins_nevertheless(
    app: App, scene: Scene
) -> None:
    @app.task(name="asks")
    async def asks() -> Any:
        return scene.link.ask(0, "same")  # as `send` does, which blocks the loop

    @app.task(name="other")
    async def other() -> int:
        return 7

    scene.run(1, "asks")
    word, request, *_ = scene.hear()
    assert word == "ask"
    scene.run(2, "other")
    scene.send("answer", request, True, 5)
    ends = sorted(scene.hear()[:2] for _ in range(2))
    assert ends == [["done", 1], ["done", 2]]


def test_a_plain_job_that_is_told_to_stop_before_its_thread_has_it_reports_its_end(
    app: App, scene: Scene
) -> None:
    app.task(name="plain")(lambda: 7)
    begun, go_on = threading.Event(), threading.Event()
    enter = scene.looped._interrupts.enter

    def late(seq: int) -> None:
        begun.set()
        assert go_on.wait(10)
        enter(seq)

    scene.looped._interrupts.enter = late  # type: ignore[method-assign]
    scene.run(1, "plain")
    assert begun.wait(10)
    scene.table.cancel(1)
    scene.looped._loop.call_soon_threadsafe(scene.looped._look)
    looked = threading.Event()
    scene.looped._loop.call_soon_threadsafe(looked.set)
    assert looked.wait(10)
    go_on.set()
    assert scene.hear()[:2] == ["done", 1]


def test_a_plain_job_for_which_there_is_no_thread_goes_back_and_runs_no_second_time(
    app: App, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    app.task(name="plain")(lambda: ran.append(1))

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        scene.run(1, "plain")
        assert scene.hear()[3][0] == "interrupted"
    scene.run(2, "plain")
    assert scene.hear()[3][0] == "returned"
    assert ran == [1]


def test_a_run_whose_end_was_an_error_of_ours_is_reported_all_the_same(
    app: App, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.task(name="plain")(lambda: 7)

    def fail(_seq: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(scene.looped._interrupts, "enter", fail)
    scene.run(1, "plain")
    word, seq, _, outcome = scene.hear()
    assert (word, seq, outcome[0]) == ("done", 1, "raised")
