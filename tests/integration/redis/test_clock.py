"""The server's clock is set, as when a replica on another host becomes the master: nothing is run twice or held up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from millgate.brokers.base import State
from millgate.brokers.redis import RedisBroker
from millgate.limits import Rate
from millgate.queues import Subscription
from support.builders import a_message, a_topic, some_messages
from support.programs import Folder, user_for
from support.servers import Redis
from support.steppable import Steppable
from support.wait import eventually
from support.working import Hand, ids

Open = Callable[..., RedisBroker]
HOUR = 3600


@pytest.fixture
def clock() -> Iterator[Steppable]:
    """A clock that the server's account can read."""
    folder = Folder(user_for("redis"))
    yield Steppable(Steppable.build(folder.path), folder.path / "offset")
    folder.remove()


@pytest.fixture
def broker(clock: Steppable, queue: str, open_one: Open) -> Iterator[RedisBroker]:
    """A client of a fresh queue on a server that goes by that clock."""
    server = Redis(environment=clock.environ)
    made = open_one(queue, server.url)
    made.setup()
    yield made
    server.close()


def test_a_clock_set_ahead_takes_no_lease_from_an_owner_that_renews(
    broker: RedisBroker, clock: Steppable
) -> None:
    broker.publish([message := a_message()])
    owner, other = Hand(broker), Hand(broker)
    claim = owner.one()
    clock.step(HOUR)
    assert other.claim(5) == [], "the owner lives: it renews first"
    owner.beat(claim)
    owner.ack(claim)
    assert broker.states([message.id])[0].state is State.SUCCEEDED


def test_a_clock_set_back_holds_up_neither_claims_nor_rates_and_keeps_the_order(
    broker: RedisBroker, clock: Steppable
) -> None:
    broker.configure([a_topic("rated", rate=Rate(20, 1.0, burst=1))])
    before, rated = some_messages(3), some_messages(4, topic="rated")
    broker.publish([*before, *rated])
    hand = Hand(broker)
    held = hand.one("rated")  # the next one has to wait for its token
    assert hand.claim(1, "rated") == []
    clock.step(-HOUR)
    after = some_messages(3)
    broker.publish(after)
    assert ids(hand.claim(10, "default")) == ids([*before, *after])
    started = [held.id]

    def all_started() -> bool:
        assert broker.wait_for_work(Subscription(("rated",)), 5.0)
        started.extend(ids(hand.claim(1, "rated")))
        return len(started) == len(rated)

    eventually(all_started, timeout=20)
    assert started == ids(rated)
    hand.beat(held)
