"""What tests of the worker stand on: a queue on a broker of their choice, a hand to send with, and real workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from millgate import codec
from millgate.brokers.base import Broker, TaskState
from millgate.errors import BrokerError
from millgate.ids import new_id
from millgate.message import Message
from millgate.queues import TopicPolicy
from support.brokers import FACTORIES, NEWER, Venue
from support.memory_worker import Door
from support.wait import eventually
from support.worker import TESTS, WorkerProcess

#: Brokers that serve another process: all but the one in memory.
SERVED: Final = sorted(FACTORIES.keys() - NEWER - {"memory"})
#: Runs a test on each of them, where the outcome depends on the broker; the others run on brokerd.
every_broker = pytest.mark.parametrize("bench", SERVED, indirect=True)
#: … and on the one in memory: what happens within one worker, whose end is its queue's end. What kills or starts a
#: second one has nothing to find there.
every_broker_and_memory = pytest.mark.parametrize("bench", [*SERVED, "memory"], indirect=True)


class Bench:
    """A queue, and workers on it."""

    def __init__(self, venue: Venue, folder: Path) -> None:
        assert venue.url is not None, "a worker is another process: the broker must have a URL"
        self.venue = venue
        self.url = venue.url
        self.queue = venue.queue
        self.folder = folder
        self.broker: Broker = venue.client()
        self.workers: list[WorkerProcess] = []
        self.journal = folder / "journal"

    def configure(self, **policy: Any) -> None:
        """The default topic's policy."""
        self.broker.configure([TopicPolicy("default", **policy)])

    def send(self, task: str, *args: Any, **fields: Any) -> str:
        """Queue one call; answers its id."""
        return self.send_many(task, [args], **fields)[0]

    def send_many(self, task: str, calls: Sequence[tuple[Any, ...]], **fields: Any) -> list[str]:
        """Queue calls of one task, in order."""
        messages = [self.message(task, args, **fields) for args in calls]
        return [receipt.id for receipt in self.broker.publish(messages)]

    def message(self, task: str, args: tuple[Any, ...], **fields: Any) -> Message:
        """One call, not queued yet."""
        given = {"id": new_id(1.0e9), "topic": "default", **fields}
        return Message(task=task, body=codec.encode_call(args, {}), **given)

    def start(self, **flags: object) -> WorkerProcess:
        """A worker with these flags, underscores for dashes."""
        name = f"worker-{len(self.workers)}"
        given: dict[str, object] = {
            "broker": self.url,
            "queue": self.queue,
            "app": "support.workload:app",
            "children": 2,
            "drain-timeout": "8s",
            "log-level": "debug",
        }
        cwd = flags.pop("cwd", TESTS)
        assert isinstance(cwd, Path)
        environ = flags.pop("environ", None)
        assert environ is None or isinstance(environ, dict)
        given |= {key.replace("_", "-"): value for key, value in flags.items()}
        worker = self._started(given, cwd, name, environ)
        self.workers.append(worker)
        return worker

    def _started(
        self, flags: Mapping[str, object], cwd: Path, name: str, environ: Mapping[str, str] | None
    ) -> WorkerProcess:
        return WorkerProcess(self.folder, flags, cwd, name, environ)

    def ready(self, **flags: object) -> WorkerProcess:
        """As `start`, and it works already."""
        return self.start(**flags).until_ready()

    def state(self, id: str) -> TaskState:  # noqa: A002 -- the field's name everywhere
        """What is known of one message."""
        return self.broker.states([id])[0]

    def end_of(self, id: str, timeout: float = 20.0) -> TaskState:  # noqa: A002 -- as above
        """Wait for a message's end."""
        return self.ends_of([id], timeout)[0]

    def ends_of(self, ids: Sequence[str], timeout: float = 20.0) -> Sequence[TaskState]:
        """Wait for the ends of messages, an outage of the broker included."""

        def ended() -> Sequence[TaskState] | None:
            try:
                states = self.broker.states(ids)
            except BrokerError:
                return None
            return states if all(state.state.final for state in states) else None

        return eventually(ended, timeout=timeout, every=0.05) or ()

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
        """End all workers, then the queue."""
        for worker in self.workers:
            worker.end()
        self.venue.close()


class MemoryWorker(WorkerProcess):
    """Waits for its flags, so that a test may send before."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "door"
        super().__init__(folder, {}, name="worker-0")
        try:
            self.door = Door(self._path)
        except BaseException:
            self.end()
            raise

    def _program(self) -> list[str]:
        return ["support.memory_worker", str(self._path)]

    def begin(self, flags: Mapping[str, object]) -> None:
        """Let it work."""
        given = {**self.flags, **flags}
        del given["broker"], given["queue"]
        self.door.start({key.replace("-", "_"): value for key, value in given.items()})


class MemoryBench(Bench):
    """A queue in memory and the one worker that has it; when it has ended, only what was there can be asked."""

    def __init__(self, folder: Path) -> None:
        self._worker: MemoryWorker | None = MemoryWorker(folder)
        self._all = self._worker
        super().__init__(_InMemory(self._worker), folder)

    def _started(
        self, flags: Mapping[str, object], cwd: Path, name: str, environ: Mapping[str, str] | None
    ) -> WorkerProcess:
        worker, self._worker = self._worker, None
        assert worker is not None, "a queue in memory has one worker"
        assert (cwd, environ) == (TESTS, None), "it runs already"
        worker.begin(flags)
        return worker

    def close(self) -> None:
        self.workers = [self._all]
        super().close()


class _InMemory:
    """The worker's queue as a venue."""

    url: str | None = "memory://"
    queue = "millgate"

    def __init__(self, worker: MemoryWorker) -> None:
        self._door: Any = worker.door

    def client(self) -> Broker:
        broker: Broker = self._door
        return broker

    def pass_time(self, seconds: float) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._door.close()
