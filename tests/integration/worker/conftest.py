"""A queue of the local broker, a hand to send with, and workers that end with the test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millgate import codec
from millgate.brokers.base import Broker, TaskState
from millgate.ids import new_id
from millgate.message import Message
from millgate.queues import TopicPolicy
from support.local import Daemon, shared_daemon
from support.wait import eventually
from support.worker import TESTS, WorkerProcess


class Bench:
    """A queue, and workers on it."""

    def __init__(self, daemon: Daemon, folder: Path) -> None:
        self.daemon = daemon
        self.folder = folder
        self.queue = f"q{secrets.token_hex(6)}"
        self.broker: Broker = daemon.client(self.queue)
        self.workers: list[WorkerProcess] = []
        self.journal = folder / "journal"

    def configure(self, **policy: Any) -> None:
        """The default topic's policy."""
        self.broker.configure([TopicPolicy("default", **policy)])

    def send(self, task: str, *args: Any, **fields: Any) -> str:
        """Queue one call; answers its id."""
        return self.send_many(task, [args], **fields)[0]

    def send_many(self, task: str, calls: list[tuple[Any, ...]], **fields: Any) -> list[str]:
        """Queue calls of one task, in order."""
        messages = [
            Message(
                id=new_id(1.0e9),
                topic=fields.get("topic", "default"),
                task=task,
                body=codec.encode_call(args, {}),
                **{key: value for key, value in fields.items() if key != "topic"},
            )
            for args in calls
        ]
        return [receipt.id for receipt in self.broker.publish(messages)]

    def start(self, **flags: object) -> WorkerProcess:
        """A worker with these flags, underscores for dashes."""
        name = f"worker-{len(self.workers)}"
        given: dict[str, object] = {
            "broker": self.daemon.url,
            "queue": self.queue,
            "app": "support.workload:app",
            "children": 2,
            "drain-timeout": "8s",
            "log-level": "debug",
        }
        cwd = flags.pop("cwd", TESTS)
        assert isinstance(cwd, Path)
        given |= {key.replace("_", "-"): value for key, value in flags.items()}
        worker = WorkerProcess(self.folder, given, cwd, name)
        self.workers.append(worker)
        return worker

    def ready(self, **flags: object) -> WorkerProcess:
        """As `start`, and it works already."""
        return self.start(**flags).until_ready()

    def state(self, id: str) -> TaskState:  # noqa: A002 -- the field's name everywhere
        """What is known of one message."""
        return self.broker.states([id])[0]

    def end_of(self, id: str, timeout: float = 20.0) -> TaskState:  # noqa: A002 -- as above
        """Wait for a message's end."""
        eventually(lambda: self.state(id).state.final, timeout=timeout, every=0.05)
        return self.state(id)

    def result(self, id: str, timeout: float = 20.0) -> Any:  # noqa: A002 -- as above
        """The decoded result of a message that succeeds."""
        state = self.end_of(id, timeout)
        assert state.state == "succeeded", (state.reason, state.failure)
        assert state.result is not None
        return codec.decode(state.result)

    def notes(self, word: str | None = None) -> list[list[str]]:
        """Lines of the journal that tasks write, split; only those that begin with `word`, if given."""
        if not self.journal.exists():
            return []
        lines = [line.split() for line in self.journal.read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if word in (None, line[0])]

    def until_noted(self, word: str, count: int = 1, timeout: float = 20.0) -> list[list[str]]:
        """Wait until so many lines begin with `word`."""
        eventually(lambda: len(self.notes(word)) >= count, timeout=timeout)
        return self.notes(word)

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.end()
        self.broker.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A fresh queue on the shared brokerd."""
    made = Bench(shared_daemon(os.getpid()), tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def own_bench(tmp_path: Path) -> Iterator[Bench]:
    """A fresh queue on a brokerd of the test's own, which may be ended and started."""
    daemon = Daemon(tmp_path / "broker", "&die_with_parent=on")
    daemon.start()
    made = Bench(daemon, tmp_path)
    try:
        yield made
    finally:
        made.close()
        daemon.end()


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
