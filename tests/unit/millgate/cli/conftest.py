"""A command line with everything around it replaced: streams, environment, clock, and a broker in memory."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from millgate.brokers import open_broker
from millgate.brokers.base import Ask, Broker
from millgate.cli import main
from millgate.cli.console import Console
from millgate.clock import Clock
from millgate.fleet import WorkerInfo, WorkerRef
from millgate.ids import new_incarnation
from millgate.message import Claim
from support.clock import FakeClock


class Stream(io.StringIO):
    """Text that may claim to be a terminal."""

    def __init__(self, text: str = "", terminal: bool = False) -> None:
        super().__init__(text)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@dataclass
class Shell:
    """Runs commands on one broker and keeps what they printed last."""

    url: str
    broker: Broker
    environ: dict[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=FakeClock)
    terminal: bool = False
    typed: str = ""
    code: int = -1
    out: str = ""
    err: str = ""

    def __call__(self, *arguments: str) -> int:
        out, err = Stream(terminal=self.terminal), Stream()
        console = Console(
            out=out,
            err=err,
            stdin=Stream(self.typed, terminal=bool(self.typed)),
            environ={"MILLGATE_BROKER": self.url, **self.environ},
            clock=self.clock,
        )
        self.code = main(arguments, console)
        self.out, self.err = out.getvalue(), err.getvalue()
        return self.code

    def json(self, *arguments: str) -> Any:
        """Run with `-o json` and read the answer."""
        self(*arguments, "-o", "json")
        return json.loads(self.out)

    def claim(self, name: str = "w1", n: int = 1) -> tuple[Claim, ...]:
        """Claim as a worker of that name would."""
        worker = WorkerRef(name, new_incarnation())
        self.broker.register(worker, WorkerInfo(slots=4, topics="*"))
        return self.broker.claim(worker, Ask(n=n)).claims


@pytest.fixture
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    """Commands against a memory broker that this test shares with them by name."""
    url = f"memory://{abs(hash(request.node.nodeid))}"
    broker = open_broker(url)
    broker.setup()
    yield Shell(url, broker)
    broker.close()


@pytest.fixture
def sent(shell: Shell) -> Callable[..., str]:
    """Queue one task through the command and answer its id."""

    def send(*arguments: str, task: str = "work") -> str:
        (receipt,) = shell.json("send", task, *arguments)
        return str(receipt["id"])

    return send
