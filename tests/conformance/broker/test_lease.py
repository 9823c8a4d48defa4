"""Leases: renewed by their holder, lost with it, and worthless to whoever lost them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millgate.brokers.base import Broker, State
from millgate.fleet import Beat, WorkerState
from millgate.message import Claim, ClaimRef
from millgate.outcome import Reason
from millgate.retry import RetryPolicy
from millgate.settlement import Ack, Bury, Charge, Drop, Later
from support.builders import a_message, a_topic, some_messages
from support.wait import eventually
from support.working import A_FAILURE, Hand, ids

PassTime = Callable[[float], None]


def short(broker: Broker, **fields: Any) -> None:
    broker.configure([a_topic(lease=1.0, **fields)])


def reclaimed(hand: Hand, pass_time: PassTime) -> Claim:
    """The claim of a message whose lease has lapsed, as soon as the broker has noticed."""

    def claim() -> list[Claim]:
        pass_time(0.05)
        return hand.claim()

    return eventually(claim, timeout=4)[0]


def test_a_lapsed_lease_is_a_loss_and_not_a_failure(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    short(broker)
    broker.publish([a_message()])
    hand.one()
    pass_time(1.1)
    again = reclaimed(Hand(broker), pass_time)
    assert (again.attempt, again.losses, again.failures, again.interruptions) == (2, 1, 0, 0)


def test_a_renewed_lease_does_not_lapse(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    short(broker)
    broker.publish([a_message()])
    claim = hand.one()
    for _ in range(4):
        pass_time(0.5)
        hand.beat(claim)
        assert Hand(broker).claim() == []
    hand.ack(claim)


def test_each_lease_has_the_length_of_its_topic(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic("short", lease=1.0), a_topic("long", lease=30.0)])
    broker.publish([a_message(topic="short"), a_message(topic="long")])
    claims = hand.claim(2)
    pass_time(0.6)
    hand.beat(*claims)
    pass_time(1.2)
    other = Hand(broker)
    assert reclaimed(other, pass_time).topic == "short"
    assert other.claim() == []


def test_extend_names_what_is_lost_and_renews_the_rest(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.publish(some_messages(3))
    done, taken, kept = hand.claim(3)
    hand.ack(done)
    broker.requeue([taken.id])
    answer = broker.extend(hand.worker, [done.ref, taken.ref, kept.ref], Beat())
    assert answer.lost == (done.id, taken.id)
    assert (answer.cancelled, answer.state) == ((), WorkerState.ACTIVE)


def test_extend_names_what_was_cancelled_until_it_is_settled(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    first, second = hand.claim(2)
    broker.cancel([first.id])
    for _ in range(2):
        answer = broker.extend(hand.worker, [first.ref, second.ref], Beat())
        assert (answer.cancelled, answer.lost) == ((first.id,), ())


def test_extend_says_fenced_unknown_and_the_revision(broker: Broker, hand: Hand) -> None:
    assert broker.extend(hand.worker, [], Beat()).state is WorkerState.ACTIVE
    broker.fence(hand.worker.name, 60)
    assert broker.extend(hand.worker, [], Beat()).state is WorkerState.FENCED
    revision = broker.configure([a_topic(limit=7)])
    assert broker.extend(hand.worker, [], Beat()).revision == revision
    broker.unregister(hand.worker)
    assert broker.extend(hand.worker, [], Beat()).state is WorkerState.UNKNOWN


def test_a_new_start_of_the_same_worker_does_not_renew_the_old_claim(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    short(broker)
    broker.publish([a_message()])
    hand.one()
    newer = Hand(broker, hand.worker.name)
    pass_time(0.7)
    newer.beat()
    pass_time(0.6)
    assert reclaimed(newer, pass_time).losses == 1


def test_a_stale_token_changes_nothing(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    short(broker)
    broker.publish([message := a_message(group="g")])
    old = hand.one()
    pass_time(1.1)
    owner = Hand(broker)
    new = reclaimed(owner, pass_time)
    follow = a_message()
    assert (
        broker.settle(
            [
                Ack(old.ref, b"1", publish=[follow]),
                Later(old.ref, 0.0, Charge.FAILURE, A_FAILURE),
                Bury(old.ref, Reason.FAILED, A_FAILURE),
                Drop(old.ref),
            ]
        )
        == (message.id,) * 4
    )
    assert broker.progress(old.ref, b"99") is False
    assert broker.extend(hand.worker, [old.ref], Beat()).lost == (message.id,)
    known = broker.states([message.id, follow.id])
    assert (known[0].state, known[0].progress, known[1].state) == (
        State.RUNNING,
        None,
        State.UNKNOWN,
    )
    owner.ack(new)


def test_a_forged_token_and_an_unknown_id_are_stale(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message()])
    claim = hand.one()
    forged = [ClaimRef(claim.id, claim.topic, "forged"), ClaimRef("nobody", "default", claim.token)]
    assert broker.settle([Ack(ref) for ref in forged]) == (claim.id, "nobody")
    hand.ack(claim)


def test_a_message_that_is_lost_too_often_is_buried_as_lost(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    short(broker, retry=RetryPolicy(losses=1))
    poison, honest = a_message(priority=9), a_message()
    broker.publish([poison])
    hand.one()
    pass_time(1.1)
    assert reclaimed(hand, pass_time).losses == 1
    broker.publish([honest])
    pass_time(1.1)
    assert reclaimed(hand, pass_time).id == honest.id
    letter = broker.dead_letter(poison.id)
    assert letter is not None
    assert (letter.reason, letter.losses, letter.failures, letter.attempt) == (Reason.LOST, 2, 0, 2)
    assert letter.worker == hand.worker.name
    assert broker.states([poison.id])[0].state is State.FAILED


def test_a_holder_that_settles_in_time_wins_against_the_reaper(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    short(broker)
    broker.publish([message := a_message()])
    claim = hand.one()
    pass_time(0.4)
    hand.ack(claim, result=b"1")
    pass_time(1.0)
    assert Hand(broker).claim() == []
    assert broker.states([message.id])[0].state is State.SUCCEEDED


def test_a_cancelled_run_whose_worker_died_is_cancelled(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    short(broker)
    broker.publish([message := a_message()])
    hand.one()
    broker.cancel([message.id])
    pass_time(1.1)

    def ended() -> bool:
        pass_time(0.05)
        assert hand.claim() == []
        return broker.states([message.id])[0].state is State.CANCELLED

    eventually(ended, timeout=4)


def test_unregistering_gives_everything_back_uncharged(broker: Broker, hand: Hand) -> None:
    messages = some_messages(3)
    broker.publish(messages)
    hand.claim(2)
    broker.unregister(hand.worker)
    claims = Hand(broker).claim(5)
    assert ids(claims) == ids(messages)
    counts = [(c.attempt, c.interruptions, c.losses, c.failures) for c in claims]
    assert counts == [(2, 1, 0, 0), (2, 1, 0, 0), (1, 0, 0, 0)]
