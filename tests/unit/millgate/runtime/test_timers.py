"""Schedules on a memory broker whose clock is turned by hand."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from millgate import App
from millgate.brokers.base import Broker, State
from millgate.brokers.memory import MemoryBroker
from millgate.clock import written
from millgate.cron import Misfire, Schedule
from millgate.runtime.connection import Connection
from millgate.runtime.logs import Journal
from millgate.runtime.metrics import Metrics
from millgate.runtime.timers import Timers
from millgate.spec import TaskWire
from support.clock import FakeClock

MINUTE = 1_800_000_000.0  # a full minute


def timers(broker: Broker, clock: FakeClock, journal: Any = None, **tasks: Schedule) -> Timers:
    journal = journal or Journal(
        clock, json_lines=True, level="error", descriptor=os.open("/dev/null", os.O_WRONLY)
    )
    connection = Connection(
        lambda: "", "q", journal=journal, metrics=Metrics(), clock=clock, broker=broker
    )
    made = Timers(connection, journal, Metrics(), clock)
    made.know({name: TaskWire(name, schedule=schedule) for name, schedule in tasks.items()})
    return made


def fired(broker: Broker) -> int:
    topics = broker.stats().topics
    return (topics["default"].enqueued or 0) if "default" in topics else 0


def test_each_slot_fires_once_whoever_asks() -> None:
    clock = FakeClock(MINUTE + 1)
    broker = MemoryBroker(clock=clock)
    pair = [timers(broker, clock, tick=Schedule("* * * * *")) for _ in range(2)]
    waits = [one.fire_due(clock.now()) for one in pair]
    assert fired(broker) == 0
    assert all(29 < wait < 60 for wait in waits)
    for minute in range(1, 4):
        clock.advance(60)
        for one in pair:
            one.fire_due(clock.now())
        assert fired(broker) == minute


def test_what_a_schedule_sends_is_unique_and_has_a_key_as_what_the_task_sends() -> None:
    clock = FakeClock(MINUTE + 1)
    app = App(MemoryBroker(clock=clock))

    @app.task(name="sweep", cron="* * * * *", unique="{region}", key="{region}", unique_for="1h")
    def sweep(region: str = "eu") -> None: ...

    one = timers(app.broker, clock)
    one.know({"sweep": TaskWire.from_wire(sweep.spec.wire())})
    for _ in range(3):
        clock.advance(60)
        one.fire_due(clock.now())
    assert fired(app.broker) == 1
    [waiting] = app.broker.peek("default", State.WAITING)
    assert waiting.message is not None
    assert waiting.message.key == "eu"
    assert sweep.send().id == waiting.id


def test_missed_slots_are_made_up_for_as_the_schedule_says() -> None:
    for misfire, count in ((Misfire.SKIP, 0), (Misfire.ONCE, 1), (Misfire.ALL, 3)):
        clock = FakeClock(MINUTE + 1)
        broker = MemoryBroker(clock=clock)
        one = timers(broker, clock, tick=Schedule("*/10 * * * *", misfire=misfire))
        one.fire_due(clock.now())
        clock.advance(35 * 60)  # nobody was there; the last slot is five minutes old
        one.fire_due(clock.now())
        assert fired(broker) == count, misfire


def test_while_an_old_and_a_new_schedule_are_there_no_slot_fires_twice_and_then_the_new_one_holds() -> (
    None
):
    clock = FakeClock(MINUTE + 1)
    broker = MemoryBroker(clock=clock)
    old = timers(broker, clock, tick=Schedule("*/10 * * * *"))
    new = timers(broker, clock, tick=Schedule("*/15 * * * *"))
    slots: list[float] = []
    for minute in range(1, 121):
        clock.advance(60)
        for one in (old, new) if minute <= 60 else (new,):
            one.fire_due(clock.now())
        if fired(broker) > len(slots):
            slots.append(broker.schedules()["tick"])
    assert fired(broker) == len(slots) == len(set(slots))
    late = [slot for slot in slots if slot > MINUTE + 3600]
    assert [slot % 900 for slot in late] == [0.0] * 4


def test_an_app_without_schedules_needs_no_thread() -> None:
    clock = FakeClock()
    assert not timers(MemoryBroker(clock=clock), clock).know({"plain": TaskWire("plain")})


def test_a_clock_that_is_set_back_after_the_start_keeps_no_schedule_silent() -> None:
    clock = FakeClock(MINUTE + 86_400)  # a day ahead
    broker = MemoryBroker(clock=clock)
    one = timers(broker, clock, tick=Schedule("* * * * *"))
    clock.step(1 - 86_400)
    one.fire_due(clock.now())
    clock.advance(60)
    one.fire_due(clock.now())
    assert fired(broker) == 1


def test_a_schedule_that_fired_for_a_time_to_come_is_told_of_once() -> None:
    said: list[tuple[str, dict[str, Any]]] = []
    journal = SimpleNamespace(say=lambda level, _event, **fields: said.append((level, fields)))
    clock = FakeClock(MINUTE + 1)
    broker = MemoryBroker(clock=clock)
    broker.fire("tick", MINUTE + 86_400, [])  # by a machine that is a day ahead
    broker.fire("tock", MINUTE + 60, [])
    one = timers(broker, clock, journal, tick=Schedule("* * * * *"), tock=Schedule("* * * * *"))
    for _ in range(3):
        one.fire_due(clock.now())
    assert [(level, fields["task"], fields["seconds"]) for level, fields in said] == [
        ("error", "tick", 86_399)
    ]
    assert said[0][1]["slot"] == written(MINUTE + 86_400)


def test_a_slot_is_written_as_all_moments_are() -> None:
    said: list[str] = []
    journal = SimpleNamespace(say=lambda *_, slot, **__: said.append(slot))
    clock = FakeClock(1_800_000_000.0)
    one = timers(MemoryBroker(clock=clock), clock, journal, tick=Schedule("* * * * *"))
    clock.advance(61)
    one.fire_due(clock.now())
    assert said == ["2027-01-15T08:01:00Z"]
