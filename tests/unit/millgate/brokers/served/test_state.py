"""A state as bytes: whole or refused, and at no moment a second time in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from millgate.brokers.served import frames, state, values
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.engine import Call, Engine
from millgate.errors import NotDecodable
from support.builders import some_messages


def backlog(count: int) -> Engine:
    engine, caller = Engine(), Caller("client", "q")
    for number in range(1, count // 1000 + 1):
        published = [number, number, "publish", [values.from_messages(some_messages(1000)), None]]
        engine.apply(float(number), caller, Call.read(frames.pack(published)))
    return engine


def cost(work: Callable[[], Any]) -> tuple[int, Any]:
    """The most bytes that were in use meanwhile, above those that stay, and what it answers."""
    tracemalloc.start()
    try:
        made = work()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - kept, made


def test_a_long_backlog_is_written_and_read_without_a_second_one_beside_it() -> None:
    engine = backlog(6000)
    passing, data = cost(engine.dump)
    assert passing < len(data)  # as lists it is several times as much
    resumed = Engine()
    passing, _ = cost(lambda: resumed.load(data))
    assert passing < len(data)
    assert resumed.dump() == data


@pytest.mark.parametrize("cut", [0, 1, 3, 40, 200, -1])
def test_what_is_not_whole_is_refused(cut: int) -> None:
    data = backlog(1000).dump()
    with pytest.raises(NotDecodable):
        Engine().load(data[:cut])


@pytest.mark.parametrize("data", [b"\x80", b"\x90", b"\x93\x00\x00\x00", b"\xc1" * 9, b"x" * 99])
def test_what_is_no_state_is_refused(data: bytes) -> None:
    with pytest.raises(NotDecodable):
        Engine().load(data)


def test_parts_in_another_order_are_refused() -> None:
    core = backlog(1000).queues["q"]
    turned = dict(reversed(core.parts().items()))
    with pytest.raises(NotDecodable):
        Engine().load(state.pack(0.0, {"q": turned}, []))
