"""What only the memory broker promises: names, clocks, threads."""

from __future__ import annotations

import os
import signal
import threading
import time

from millgate.brokers import open_broker
from millgate.brokers.base import Ask, Broker, State
from millgate.brokers.memory import MemoryBroker
from millgate.queues import Subscription
from support.builders import a_message, a_worker, an_info
from support.clock import FakeClock
from support.working import Hand


def test_it_has_every_verb_of_the_contract() -> None:
    assert isinstance(MemoryBroker(), Broker)


def test_every_open_without_a_name_is_a_queue_of_its_own() -> None:
    first, second = open_broker("memory://"), open_broker("memory://")
    first.publish([a_message()])
    assert dict(second.stats().topics) == {}


def test_a_name_is_shared_and_queues_of_one_name_are_apart() -> None:
    first, second = open_broker("memory://shared-here"), open_broker("memory://shared-here")
    other = open_broker("memory://shared-here", queue="other")
    first.publish([message := a_message()])
    assert second.states([message.id])[0].state is State.WAITING
    assert other.states([message.id])[0].state is State.UNKNOWN


def test_a_process_may_fork_beside_threads_that_are_in_the_middle_of_something() -> None:
    broker, inside = MemoryBroker(), threading.Event()

    def work(_now: float) -> None:
        inside.set()
        time.sleep(0.3)

    thread = threading.Thread(target=broker._shared.do, args=(work,))
    thread.start()
    inside.wait()
    pid = os.fork()
    if not pid:
        signal.alarm(20)  # it would wait for ever for a thread that is not there
        broker.publish([a_message()])
        os._exit(len(broker.stats().topics))
    _, status = os.waitpid(pid, 0)
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 1
    assert not broker.stats().topics, "the child has a queue of its own"


def test_a_clock_that_is_handed_in_decides() -> None:
    clock = FakeClock()
    broker = MemoryBroker(clock=clock)
    broker.publish([message := a_message(delay=3600)])
    clock.advance(3601)
    assert broker.states([message.id])[0].state is State.WAITING


def test_a_wall_clock_that_jumps_takes_no_lease_away() -> None:
    clock = FakeClock()
    broker = MemoryBroker(clock=clock)
    hand = Hand(broker)
    broker.publish([a_message()])
    claim = hand.one()
    clock.step(7200)
    assert Hand(broker).claim() == []
    clock.step(-10_000)
    hand.beat(claim)
    clock.advance(61)
    assert Hand(broker).one().losses == 1


def test_waiting_beside_a_turned_clock_ends_when_it_is_turned() -> None:
    clock = FakeClock()
    broker = MemoryBroker(clock=clock)
    broker.publish([a_message(delay=600)])
    turn = threading.Timer(0.1, clock.advance, (601,))
    turn.start()
    assert broker.wait_for_work(Subscription(), 3600) is True
    turn.join()
    turn = threading.Timer(0.1, clock.advance, (601,))
    turn.start()
    assert broker.wait(["nobody"], 600)[0].state is State.UNKNOWN
    turn.join()


def test_an_interrupt_belongs_to_one_view() -> None:
    broker = MemoryBroker()
    other = broker.sibling()
    other.interrupt()
    assert broker.wait_for_work(Subscription(), 0.05) is False
    assert other.wait_for_work(Subscription(), 5) is True


def test_an_error_wakes_nobody_and_leaves_the_lock_free() -> None:
    broker = MemoryBroker()
    worker = a_worker()
    broker.register(worker, an_info())
    for _ in range(2):
        try:
            broker.publish([a_message(id="no good")])
        except ValueError:
            continue
    assert broker.claim(worker, Ask()).claims == ()
