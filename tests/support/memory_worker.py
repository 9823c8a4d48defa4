"""A real worker whose supervisor has the memory broker in it, and a door through which a test speaks to that broker.

`python -m support.memory_worker SOCKET` is the worker: it waits for its flags at the door, and when it has run, leaves
what the broker knows in a file beside it, for then the broker is gone. `Door` is the test's end.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from millgate.brokers.base import TaskState
from millgate.brokers.memory import MemoryBroker
from millgate.runtime.deadlines import Deadlines
from millgate.runtime.guardian import guard
from millgate.runtime.worker import Worker
from millgate.settings import WorkerSettings
from support.wait import eventually

#: What can still be asked when the worker has ended.
_REMEMBERED = ("stats", "dead")


class Door:
    """Every verb of the broker, carried out in the worker's process; what is remembered of it afterwards."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._link: Connection | None = eventually(lambda: Client(str(path)), timeout=20)
        self._lock = threading.Lock()

    def start(self, flags: dict[str, Any]) -> None:
        """Let the worker begin."""
        self._ask("start", flags)

    def states(self, ids: Sequence[str]) -> Sequence[TaskState]:
        """As the broker's; at the end, of what was published here."""
        return self._ask("states", ids)  # type: ignore[no-any-return]

    def __getattr__(self, verb: str) -> Any:
        return lambda *arguments: self._ask(verb, *arguments)

    def close(self) -> None:
        """Go away; a worker that has not begun ends."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _ask(self, verb: str, *arguments: Any) -> Any:
        with self._lock:
            if self._link is not None:
                try:
                    self._link.send((verb, arguments))
                    fine, answer = self._link.recv()
                except (EOFError, OSError):  # it has ended
                    self.close()
                else:
                    if fine:
                        return answer
                    raise answer
        return self._remembered(verb, *arguments)

    def _remembered(self, verb: str, *arguments: Any) -> Any:
        file = self._path.with_suffix(".end")
        assert file.exists(), f"{verb}: the worker was killed, and its broker with it"
        known = pickle.loads(file.read_bytes())
        if verb == "states":
            return [known["states"][one] for one in arguments[0]]
        assert verb in known, f"{verb}: the worker has ended, and its broker with it"
        return known[verb]


class _Host:
    """The supervisor's side."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._broker = MemoryBroker()
        self._broker.setup()
        self._published: list[str] = []
        self._flags: queue.Queue[dict[str, Any]] = queue.Queue()

    def run(self, link: Any, deadlines: Deadlines) -> int:
        threading.Thread(target=self._serve, daemon=True).start()
        settings = WorkerSettings.from_env({}, **self._flags.get())
        code = Worker(settings, deadlines, link, broker=self._broker).run()
        known = {name: getattr(self._broker, name)() for name in _REMEMBERED}
        states = self._broker.states(self._published)
        known["states"] = dict(zip(self._published, states, strict=True))
        self._path.with_suffix(".end").write_bytes(pickle.dumps(known))
        return code

    def _serve(self) -> None:
        with Listener(str(self._path)) as listener, listener.accept() as link:
            while True:
                try:
                    verb, arguments = link.recv()
                except EOFError:  # the test has gone
                    os._exit(1)
                link.send(self._answer(verb, arguments))

    def _answer(self, verb: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        if verb == "start":
            self._flags.put(*arguments)
            return True, None
        try:
            answer = getattr(self._broker, verb)(*arguments)
        except Exception as error:  # noqa: BLE001 -- it is the caller's
            return False, error
        if verb == "publish":
            self._published += [receipt.id for receipt in answer]
        return True, answer


if __name__ == "__main__":
    sys.exit(guard(_Host(Path(sys.argv[1])).run))
