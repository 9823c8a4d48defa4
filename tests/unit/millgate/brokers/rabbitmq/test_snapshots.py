"""How a brokerd writes down what it knows, without a server."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from millgate.brokers.rabbitmq import snapshots
from millgate.brokers.rabbitmq.snapshots import Snapshots
from millgate.brokers.rabbitmq.url import parse
from support.clock import FakeClock
from support.wait import eventually

TARGET = parse("amqp://127.0.0.1/", {})


def test_one_that_takes_far_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_LONGEST", 1)
    # A server that says nothing.
    monkeypatch.setattr(snapshots, "connect", lambda *_: signal.pause())
    written: list[tuple[str, int | None]] = []
    journal: Any = SimpleNamespace(
        due=True,
        head=SimpleNamespace(term=1),
        rotate=lambda: "snapshot",
        written=lambda *of: written.append(of),
    )
    engine: Any = SimpleNamespace(dump=lambda: b"")
    kept = Snapshots(journal, TARGET, FakeClock())
    kept.consider(engine)
    assert kept.writing
    journal.due = False

    def looked() -> bool:
        kept.consider(engine)
        return bool(written)

    eventually(looked)
    assert written == [("snapshot", None)]
    assert not kept.writing


def test_its_connection_need_not_live_while_the_state_is_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    def keep(name: str) -> Any:
        done.append(name)
        return MagicMock()

    monkeypatch.setattr(snapshots, "fork", lambda write: write())
    monkeypatch.setattr(signal, "alarm", lambda _: None)
    monkeypatch.setattr(snapshots, "connect", lambda *_: keep("connect"))
    monkeypatch.setattr(snapshots, "Streams", lambda _: None)
    monkeypatch.setattr(snapshots, "write_snapshot", lambda *_: 1)
    engine: Any = SimpleNamespace(dump=lambda: keep("dump"))
    Snapshots(MagicMock(due=True), TARGET, FakeClock()).consider(engine)
    assert done == ["dump", "connect"]
