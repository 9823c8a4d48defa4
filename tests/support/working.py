"""A worker's hands in a test: registered, claiming, settling, one line each."""

from __future__ import annotations

from collections.abc import Sequence

from millgate.brokers.base import Ask, Broker, Claimed, State
from millgate.fleet import Beat, WorkerState
from millgate.message import Claim, Message
from millgate.outcome import Failure, Reason
from millgate.queues import Subscription
from millgate.settlement import Ack, Bury, Charge, Drop, Later, Settlement
from support.builders import a_message, a_topic, a_worker, an_info

A_FAILURE = Failure("builtins.ValueError", "no good", "Traceback …")


class Hand:
    """One registered worker on one client."""

    def __init__(self, broker: Broker, name: str | None = None) -> None:
        self.broker = broker
        self.worker = a_worker(name)
        broker.register(self.worker, an_info())

    def ask(
        self,
        n: int = 1,
        settlements: Sequence[Settlement] = (),
        subscription: Subscription | None = None,
    ) -> Claimed:
        """One claim, with everything the broker answers."""
        return self.broker.claim(self.worker, Ask(subscription or Subscription(), n), settlements)

    def claim(self, n: int = 1, *topics: str, ordered: bool = False) -> list[Claim]:
        """What one claim hands over."""
        return list(self.ask(n, (), Subscription(topics, ordered=ordered)).claims)

    def one(self, *topics: str) -> Claim:
        """The next message; there must be one."""
        claims = self.claim(1, *topics)
        assert len(claims) == 1, "nothing was handed over"
        return claims[0]

    def beat(self, *claims: Claim, **fields: object) -> None:
        """Renew, and expect that nothing was lost."""
        beat = Beat(**fields)  # type: ignore[arg-type]
        assert self.broker.extend(self.worker, [claim.ref for claim in claims], beat).lost == ()

    def ack(self, *claims: Claim, result: bytes | None = None) -> None:
        """Settle as done, and expect that nothing was stale."""
        assert self.broker.settle([Ack(claim.ref, result) for claim in claims]) == ()

    def fail(self, claim: Claim, delay: float = 0.0) -> None:
        """Give back, charged as a failure."""
        assert self.broker.settle([Later(claim.ref, delay, Charge.FAILURE, A_FAILURE)]) == ()

    def bury(self, *claims: Claim, reason: Reason = Reason.FAILED) -> None:
        """Give up."""
        assert self.broker.settle([Bury(claim.ref, reason, A_FAILURE) for claim in claims]) == ()

    def drop(self, claim: Claim) -> None:
        """Settle as cancelled."""
        assert self.broker.settle([Drop(claim.ref)]) == ()

    def run_all(self, *topics: str, batch: int = 100) -> list[str]:
        """Claim and acknowledge until nothing is handed over; the ids in the order of their start."""
        started: list[str] = []
        settlements: list[Settlement] = []
        while True:
            answer = self.ask(batch, settlements, Subscription(topics))
            if not answer.claims:
                return started
            started += [claim.id for claim in answer.claims]
            settlements = [Ack(claim.ref) for claim in answer.claims]


def ids(items: Sequence[Claim] | Sequence[Message]) -> list[str]:
    """Their ids, in order."""
    return [item.id for item in items]


def at_work(broker: Broker) -> tuple[Hand, Claim]:
    """A worker with one message, for minutes."""
    broker.configure([a_topic(lease=300.0)])
    hand = Hand(broker)
    broker.publish([a_message()])
    return hand, hand.one()


def has_still(hand: Hand, claim: Claim) -> None:
    """Expect that a start which is unknown by now registers, holds what it held, and gives it back when it leaves."""
    broker, worker = hand.broker, hand.worker
    assert broker.extend(worker, [claim.ref], Beat()).state is WorkerState.UNKNOWN
    broker.register(worker, an_info())
    assert [row.leased for row in broker.stats().workers] == [1]
    assert broker.fence(worker.name, 5.0).leased == 1
    broker.unregister(worker)
    assert broker.states([claim.id])[0].state is State.WAITING
