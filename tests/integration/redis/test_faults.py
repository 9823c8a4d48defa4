"""Every verb meets every fault: the connection breaks before, amid and after, and what the verb does it does once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic

import pytest

from millgate.brokers.base import Ask, State
from millgate.brokers.redis import RedisBroker
from millgate.brokers.redis.scripts import script
from millgate.errors import BrokerUnavailable
from millgate.fleet import Beat
from millgate.message import Claim, Group
from millgate.outcome import Reason
from millgate.queues import Subscription
from millgate.settlement import Ack, Bury
from support.builders import a_message, a_topic, an_info, some_messages
from support.faults import Fault, FaultProxy
from support.redis import open_queue
from support.wait import eventually
from support.working import Hand

DEADLINE = 3.0


@dataclass
class Bench:
    """A queue with some of everything: one message waits, one runs, one is dead."""

    near: RedisBroker  # undisturbed
    far: RedisBroker  # through the proxy
    hand: Hand
    running: Claim
    waiting: str
    dead: str


def _publish(b: Bench) -> None:
    new = some_messages(3)
    assert [receipt.id for receipt in b.far.publish(new)] == [message.id for message in new]
    assert b.near.stats().topics["default"].waiting == 4


def _unique(b: Bench) -> None:
    first = a_message(unique="u", key="k", delay=60)
    assert b.far.publish([first])[0].id == first.id
    assert b.near.publish([a_message(unique="u")])[0].id == first.id
    assert b.near.stats().topics["default"].delayed == 1


def _group(b: Bench) -> None:
    members, callback = some_messages(2), a_message()
    b.far.publish(members, Group("g", tuple(member.id for member in members), callback))
    claims = b.hand.claim(10)
    assert len(claims) == 3
    b.hand.ack(*claims)
    assert [claim.id for claim in b.hand.claim(10)] == [callback.id]


def _claim(b: Bench) -> None:
    answer = b.far.claim(b.hand.worker, Ask(n=5), [Ack(b.running.ref, b"1")])
    assert [claim.id for claim in answer.claims] == [b.waiting]
    assert answer.claims[0].attempt == 1
    assert b.near.settle([Ack(claim.ref) for claim in answer.claims]) == ()
    assert b.near.states([b.running.id])[0].result == b"1"


def _settle(b: Bench) -> None:
    b.far.settle([Ack(b.running.ref, b"1", publish=[a_message(id="follows")])])
    known = b.near.states([b.running.id, "follows"])
    assert [state.state for state in known] == [State.SUCCEEDED, State.WAITING]
    assert b.near.stats().topics["default"].completed == 1


def _bury(b: Bench) -> None:
    b.far.settle([Bury(b.running.ref, Reason.FAILED)])
    assert b.near.stats().topics["default"].dead == 2


def _extend(b: Bench) -> None:
    answer = b.far.extend(b.hand.worker, [b.running.ref], Beat(busy=1))
    assert (answer.lost, answer.cancelled) == ((), ())
    assert b.near.stats().workers[0].beat.busy == 1


def _configure(b: Bench) -> None:
    assert b.far.configure([a_topic(limit=7)]) == 1
    assert b.near.configuration().topics["default"].limit == 7


def _fire(b: Bench) -> None:
    assert b.far.fire("daily", 100.0, [a_message()]) is True
    assert b.near.fire("daily", 100.0, [a_message()]) is False
    assert b.near.stats().topics["default"].waiting == 2


def _replay(b: Bench) -> None:
    b.far.replay([b.dead])
    assert b.near.states([b.dead])[0].state is State.WAITING
    assert b.near.stats().topics["default"].waiting == 2


def _cancel(b: Bench) -> None:
    b.far.cancel([b.waiting])
    assert b.near.states([b.waiting])[0].state is State.CANCELLED
    assert b.near.stats().topics["default"].failed == 2


def _requeue(b: Bench) -> None:
    b.far.requeue([b.running.id])
    assert b.near.states([b.running.id])[0].state is State.WAITING


def _purge(b: Bench) -> None:
    b.far.purge("default")
    assert b.near.stats().topics["default"].waiting == 0


def _purge_dead(b: Bench) -> None:
    b.far.purge_dead()
    assert b.near.stats().topics["default"].dead == 0


def _pause(b: Bench) -> None:
    b.far.pause("default", True)
    assert b.hand.claim(5) == []


def _lock(b: Bench) -> None:
    taken = b.far.acquire("l", "me", 30.0)
    assert taken is not None
    assert [(lock.name, lock.fence) for lock in b.near.locks()] == [("l", taken.fence)]


def _fence(b: Bench) -> None:
    assert b.far.fence(b.hand.worker.name, 30.0).leased == 1
    assert b.hand.claim(5) == []


def _register(b: Bench) -> None:
    b.far.register(b.hand.worker, an_info(slots=9))
    assert [row.info.slots for row in b.near.stats().workers] == [9]


def _unregister(b: Bench) -> None:
    b.far.unregister(b.hand.worker)
    assert b.near.states([b.running.id])[0].state is State.WAITING


def _progress(b: Bench) -> None:
    assert b.far.progress(b.running.ref, b"half") is True
    assert b.near.states([b.running.id])[0].progress == b"half"


def _look(b: Bench) -> None:
    assert b.far.stats().topics["default"].waiting == 1
    assert b.far.peek("default", State.WAITING)[0].id == b.waiting
    assert b.far.dead_letter(b.dead) is not None


def _wait(b: Bench) -> None:
    assert b.far.wait_for_work(Subscription(), 5.0) is True


#: What is done, and the script whose request is hit.
VERBS: dict[str, tuple[str, Callable[[Bench], None]]] = {
    "publish": ("publish", _publish),
    "publish, unique": ("publish", _unique),
    "publish, group": ("publish", _group),
    "claim": ("claim", _claim),
    "settle": ("settle", _settle),
    "settle, bury": ("settle", _bury),
    "extend": ("extend", _extend),
    "configure": ("configure", _configure),
    "fire": ("publish", _fire),
    "replay": ("replay", _replay),
    "cancel": ("cancel", _cancel),
    "requeue": ("requeue", _requeue),
    "purge": ("purge", _purge),
    "purge_dead": ("purge_dead", _purge_dead),
    "pause": ("pause", _pause),
    "acquire": ("lock", _lock),
    "fence": ("fence", _fence),
    "register": ("register", _register),
    "unregister": ("unregister", _unregister),
    "progress": ("progress", _progress),
    "stats": ("stats", _look),
    "wait_for_work": ("look", _wait),
}
SURVIVED = [fault for fault in Fault if fault is not Fault.STALL]


@pytest.fixture
def bench(broker: RedisBroker, queue: str, proxied_url: str) -> Iterator[Bench]:
    far = open_queue(queue, proxied_url, DEADLINE)
    hand = Hand(broker)
    doomed, runs, waits = some_messages(3)
    broker.publish([doomed])
    hand.bury(hand.one())
    broker.publish([runs])
    running = hand.one()
    broker.publish([waits])
    far.stats()  # connected before the fault
    yield Bench(broker, far, hand, running, waits.id, doomed.id)
    far.close()


@pytest.mark.parametrize("fault", SURVIVED, ids=lambda fault: fault.value)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_effect_once_whatever_happens_to_its_connection(
    bench: Bench, proxy: FaultProxy, verb: str, fault: Fault
) -> None:
    name, act = VERBS[verb]
    proxy.arm(fault, match=script(name).sha)
    act(bench)
    assert proxy.sprung == 1, "the fault hit the verb"


def test_a_stalled_server_is_an_error_within_the_deadline(bench: Bench, proxy: FaultProxy) -> None:
    proxy.stall()
    begun = monotonic()
    with pytest.raises(BrokerUnavailable):
        bench.far.publish([a_message()])
    assert monotonic() - begun < DEADLINE + 1
    proxy.heal()
    assert bench.far.publish([a_message()])


def test_a_server_that_is_gone_is_an_error_within_the_deadline_and_comes_back(
    bench: Bench, proxy: FaultProxy
) -> None:
    proxy.refuse()
    with pytest.raises(BrokerUnavailable):
        bench.far.stats()
    proxy.accept()
    assert bench.far.stats().topics["default"].waiting == 1


def test_a_renewal_does_not_wait_behind_a_claim_that_hangs(bench: Bench, proxy: FaultProxy) -> None:
    proxy.arm(Fault.STALL, match=script("claim").sha)
    claiming = threading.Thread(target=lambda: bench.far.claim(bench.hand.worker, Ask(n=1)))
    claiming.start()
    eventually(lambda: proxy.sprung == 1)
    begun = monotonic()
    assert bench.far.extend(bench.hand.worker, [bench.running.ref], Beat()).lost == ()
    assert monotonic() - begun < 1.0
    proxy.heal()
    claiming.join(10)


def test_a_waiter_whose_connection_breaks_is_still_woken(bench: Bench, proxy: FaultProxy) -> None:
    bench.hand.ack(*bench.hand.claim(5))
    answers: list[bool] = []
    waiter = threading.Thread(
        target=lambda: answers.append(bench.far.wait_for_work(Subscription(), 8.0))
    )
    waiter.start()
    eventually(lambda: proxy.connections >= 2)
    proxy.cut()
    bench.near.publish([a_message()])
    waiter.join(10)
    assert answers == [True]
