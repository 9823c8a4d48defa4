"""Faults that only this broker can meet: a lost bell, a lost script, gates that change and are left half-way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from millgate.brokers.redis import RedisBroker
from millgate.errors import BrokerUnavailable
from millgate.queues import Ordering, Subscription
from support import servers
from support.builders import a_message, a_topic
from support.faults import Fault, FaultProxy
from support.redis import Admin
from support.wait import eventually
from support.working import Hand

Open = Callable[..., RedisBroker]
ALL = Subscription()


@pytest.fixture
def far(queue: str, broker: RedisBroker, proxied_url: str, open_one: Open) -> RedisBroker:
    """A client through the proxy, connected."""
    made = open_one(queue, proxied_url, 4.0)
    made.stats()
    return made


def waiting(broker: RedisBroker, timeout: float = 8.0) -> tuple[threading.Thread, list[Any]]:
    """A wait in a thread; the list gets the answer and the seconds that it took."""
    answer: list[Any] = []

    def wait() -> None:
        begun = monotonic()
        answer.extend((broker.wait_for_work(ALL, timeout), monotonic() - begun))

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, answer


def bells() -> int:
    """How many clients block now."""
    return int(Admin(servers.redis().port).info("blocked_clients"))


def test_a_waiter_whose_connection_breaks_is_still_woken(
    broker: RedisBroker, far: RedisBroker, proxy: FaultProxy
) -> None:
    before = bells()
    thread, answer = waiting(far)
    eventually(lambda: bells() > before)
    proxy.cut()
    broker.publish([a_message()])
    thread.join(10)
    assert answer[0] is True
    assert answer[1] < 4


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_BETWEEN, Fault.CUT_AFTER])
def test_a_fault_of_the_blocking_pop_itself_is_survived(
    broker: RedisBroker, far: RedisBroker, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.arm(fault, match=b"BLPOP")
    thread, answer = waiting(far)
    eventually(lambda: proxy.sprung == 1)
    broker.publish([a_message()])
    thread.join(10)
    assert answer[0] is True
    assert answer[1] < 4


def test_a_waiter_that_was_interrupted_takes_no_bell_from_the_others(
    broker: RedisBroker, queue: str, open_one: Open
) -> None:
    before = bells()
    first, second = open_one(queue), open_one(queue)
    thread, answer = waiting(first)
    eventually(lambda: bells() == before + 1)
    first.interrupt()
    thread.join(5)
    assert answer[0] is True
    assert bells() == before, "its pop is not left behind"
    thread, answer = waiting(second)
    eventually(lambda: bells() == before + 1)
    broker.publish([a_message()])
    thread.join(5)
    assert answer[0] is True
    assert answer[1] < 1.5, "woken by the bell, not by the next look"


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_BETWEEN, Fault.RESET])
def test_a_script_whose_loading_is_lost_is_loaded_again(
    broker: RedisBroker, far: RedisBroker, proxy: FaultProxy, fault: Fault
) -> None:
    Admin(servers.redis().port)("SCRIPT", "FLUSH")
    proxy.arm(fault, match=b"LOAD")
    far.publish([a_message()])
    assert proxy.sprung == 1
    assert broker.stats().topics["default"].waiting == 1


@pytest.mark.parametrize(
    "policy",
    [a_topic(key_limit=1), a_topic(ordering=Ordering.KEY), a_topic(ordering=Ordering.FIFO)],
    ids=["key limit", "per key", "fifo"],
)
def test_gates_that_change_while_much_waits_lose_nothing_though_the_caller_dies(
    broker: RedisBroker,
    queue: str,
    open_one: Open,
    monkeypatch: pytest.MonkeyPatch,
    policy: Any,
) -> None:
    for start in range(0, 3000, 500):
        broker.publish([a_message(key=f"k{n % 5}", id=f"g{start + n}") for n in range(500)])
    hand = Hand(broker)
    held = hand.claim(3)
    dying = open_one(queue)
    run = dying.run

    def dies(verb: str, *arguments: Any, **options: Any) -> Any:
        if verb == "regate":
            raise BrokerUnavailable("killed")
        return run(verb, *arguments, **options)

    monkeypatch.setattr(dying, "run", dies)
    with pytest.raises(BrokerUnavailable):
        dying.configure([policy])
    broker.publish([a_message(key="k0", id="late")])
    assert broker.stats().topics["default"].waiting == 2998
    hand.ack(*held)
    started: list[str] = []

    def all_started() -> bool:
        claims = hand.claim(5)
        assert len({claim.key for claim in claims}) == len(claims), "two of a key at once"
        hand.ack(*claims)
        started.extend(claim.id for claim in claims)
        return len(started) == 2998

    eventually(all_started, timeout=60, every=0)
    assert len(set(started)) == 2998
    for key in range(5):
        mine = [int(name[1:]) for name in started if name != "late" and int(name[1:]) % 5 == key]
        assert mine == sorted(mine), "the order within a key is kept"
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.leased, topic.completed) == (0, 0, 3001)
