"""What is known of a worker outlives its silence for as long as it holds something."""

from __future__ import annotations

from millgate.brokers.base import State
from millgate.brokers.redis import RedisBroker
from millgate.fleet import Beat, WorkerState
from millgate.queues import Subscription
from support import servers
from support.builders import a_message, a_topic, an_info
from support.redis import Admin
from support.wait import eventually
from support.working import Hand


def test_a_start_that_was_forgotten_while_its_leases_ran_on_has_them_still(
    broker: RedisBroker,
) -> None:
    broker.configure([a_topic(lease=300.0)])
    hand = Hand(broker)
    broker.publish([message := a_message()])
    claim = hand.one()
    admin, prefix = Admin(servers.redis().port), broker.target.prefix
    admin("ZADD", f"{prefix}ws", 0, hand.worker.name)  # as after 90 s without a word

    def forgotten() -> bool:
        broker.wait_for_work(Subscription(), 0.05)
        return not admin("EXISTS", f"{prefix}w:{hand.worker.name}")

    eventually(forgotten)
    assert broker.extend(hand.worker, [claim.ref], Beat()).state is WorkerState.UNKNOWN
    broker.register(hand.worker, an_info())
    assert [row.leased for row in broker.stats().workers] == [1]
    assert broker.fence(hand.worker.name, 5.0).leased == 1
    broker.unregister(hand.worker)
    assert broker.states([message.id])[0].state is State.WAITING
