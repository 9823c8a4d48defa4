"""What is known of a worker outlives its silence for as long as it holds something."""

from __future__ import annotations

from millgate.brokers.redis import RedisBroker
from millgate.queues import Subscription
from support import servers
from support.redis import Admin
from support.wait import eventually
from support.working import at_work, has_still


def test_a_start_that_was_forgotten_while_its_leases_ran_on_has_them_still(
    broker: RedisBroker,
) -> None:
    hand, claim = at_work(broker)
    admin, prefix = Admin(servers.redis().port), broker.target.prefix
    admin("ZADD", f"{prefix}ws", 0, hand.worker.name)  # as after 90 s without a word

    def forgotten() -> bool:
        broker.wait_for_work(Subscription(), 0.05)
        return not admin("EXISTS", f"{prefix}w:{hand.worker.name}")

    eventually(forgotten)
    has_still(hand, claim)
