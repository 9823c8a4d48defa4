"""A client's connection and its lines: what they leave behind when they end."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from millgate.brokers.rabbitmq.wire import Line
from millgate.clock import SystemClock


def test_a_line_is_not_closed_while_its_bell_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    of = SimpleNamespace(pid=os.getpid(), drop=lambda _: None)
    line = Line(of, "1", SystemClock())  # type: ignore[arg-type]
    rings, may_ring = threading.Event(), threading.Event()
    ring = os.eventfd_write

    def slowly(bell: int, value: int) -> None:
        rings.set()
        assert may_ring.wait(10)
        ring(bell, value)

    monkeypatch.setattr(os, "eventfd_write", slowly)
    ringing = threading.Thread(target=line.put, args=(b"answer",))
    ringing.start()
    assert rings.wait(10)
    closing = threading.Thread(target=line.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    may_ring.set()
    for thread in (ringing, closing):
        thread.join(10)
    line.put(b"late")  # rings nothing
    line.close()
