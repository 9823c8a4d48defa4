"""Every verb meets every fault: the connection breaks before, amid and after, and what the verb does it does once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import psycopg
import pytest

from millgate.brokers.base import Ask, State
from millgate.brokers.postgres import PostgresBroker
from millgate.errors import BrokerUnavailable
from millgate.fleet import Beat
from millgate.message import Claim, Group
from millgate.outcome import Reason
from millgate.settlement import Ack, Bury
from support.builders import a_message, a_topic, an_info, some_messages
from support.faults import Fault, FaultProxy
from support.postgres import database_url, open_queue
from support.wait import eventually
from support.working import Hand

DEADLINE = 4.0


@dataclass
class Bench:
    """A queue with some of everything: one message waits, one runs, one is dead."""

    near: PostgresBroker  # undisturbed
    far: PostgresBroker  # through the proxy
    hand: Hand
    running: Claim
    waiting: str
    dead: str


def _publish(b: Bench) -> None:
    new = some_messages(3)
    receipts = b.far.publish(new)
    assert [(r.id, r.duplicate) for r in receipts] == [(m.id, False) for m in new]
    assert b.near.stats().topics["default"].waiting == 4


def _group(b: Bench) -> None:
    members, callback = some_messages(2), a_message()
    group = Group("g", tuple(m.id for m in members), callback)
    assert not any(r.duplicate for r in b.far.publish(members, group))
    claims = b.hand.claim(10)
    assert len(claims) == 3
    b.hand.ack(*claims)
    assert [c.id for c in b.hand.claim(10)] == [callback.id]


def _claim(b: Bench) -> None:
    answer = b.far.claim(b.hand.worker, Ask(n=5), [Ack(b.running.ref, b"1")])
    assert [claim.id for claim in answer.claims] == [b.waiting]
    assert answer.claims[0].attempt == 1
    assert b.near.settle([Ack(claim.ref) for claim in answer.claims]) == ()
    assert b.near.states([b.running.id])[0].result == b"1"


def _settle(b: Bench) -> None:
    b.far.settle([Ack(b.running.ref, b"1", publish=[a_message(id="follows")])])
    known = b.near.states([b.running.id, "follows"])
    assert [k.state for k in known] == [State.SUCCEEDED, State.WAITING]
    assert b.near.stats().topics["default"].completed == 1


def _bury(b: Bench) -> None:
    b.far.settle([Bury(b.running.ref, Reason.FAILED)])
    assert b.near.stats().topics["default"].dead == 2


def _extend(b: Bench) -> None:
    answer = b.far.extend(b.hand.worker, [b.running.ref], Beat(busy=1))
    assert (answer.lost, answer.cancelled) == ((), ())


def _configure(b: Bench) -> None:
    assert b.far.configure([a_topic(limit=7)]) == 1
    assert b.near.configuration().topics["default"].limit == 7


def _fire(b: Bench) -> None:
    message = a_message()
    assert b.far.fire("daily", 100.0, [message]) is True
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


def _lock(b: Bench) -> None:
    taken = b.far.acquire("l", "me", 30.0)
    assert taken is not None
    assert [(k.name, k.fence) for k in b.near.locks()] == [("l", taken.fence)]


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


VERBS: dict[str, Callable[[Bench], None]] = {
    "publish": _publish,
    "group_": _group,
    "claim": _claim,
    "settle": _settle,
    "settle (bury)": _bury,
    "extend": _extend,
    "configure": _configure,
    "fire_": _fire,
    "replay": _replay,
    "cancel": _cancel,
    "requeue": _requeue,
    "purge": _purge,
    "acquire": _lock,
    "fence": _fence,
    "register": _register,
    "unregister": _unregister,
    "progress": _progress,
    "stats": _look,
}
SURVIVED = [fault for fault in Fault if fault is not Fault.STALL]


@pytest.fixture
def bench(broker: PostgresBroker, queue: str, proxied_url: str) -> Any:
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
    word = verb.partition(" ")[0].encode()
    proxy.arm(fault, match=b"." + word)
    VERBS[verb](bench)
    assert proxy.sprung == 1, "the fault hit the verb"


def test_a_transaction_whose_commit_is_lost_is_not_made_twice(
    bench: Bench, proxy: FaultProxy
) -> None:
    proxy.arm(Fault.CUT_BETWEEN, match=b"COMMIT")
    _fire(bench)
    assert proxy.sprung == 1


def test_a_stalled_server_is_an_error_within_the_deadline(bench: Bench, proxy: FaultProxy) -> None:
    proxy.stall()
    begun = monotonic()
    with pytest.raises(BrokerUnavailable):
        bench.far.publish([a_message()])
    assert monotonic() - begun < DEADLINE + 2.5  # libpq rounds a connect's timeout up
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
    proxy.arm(Fault.STALL, match=b".claim")
    claiming = threading.Thread(target=lambda: bench.far.claim(bench.hand.worker, Ask(n=1)))
    claiming.start()
    begun = monotonic()
    assert bench.far.extend(bench.hand.worker, [bench.running.ref], Beat()).lost == ()
    assert monotonic() - begun < DEADLINE - 0.5
    proxy.heal()
    claiming.join(10)


def test_what_a_caller_has_given_up_is_given_up_by_the_server_too(
    broker: PostgresBroker, queue: str
) -> None:
    impatient = open_queue(queue, deadline=1.0)
    impatient.stats()
    at_it = """SELECT count(*) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%"{}".post%'"""
    with (
        psycopg.connect(database_url()) as other,
        psycopg.connect(database_url(), autocommit=True) as looking,
    ):
        other.execute(f'LOCK TABLE "{queue}".msg IN ACCESS EXCLUSIVE MODE'.encode())
        begun = monotonic()
        with pytest.raises(BrokerUnavailable):
            impatient.publish([a_message()])
        assert monotonic() - begun < 6.0
        eventually(lambda: looking.execute(at_it.format(queue).encode()).fetchone() == (0,))
    assert broker.publish([a_message()])
    impatient.close()
