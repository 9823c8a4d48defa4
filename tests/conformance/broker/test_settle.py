"""settle: each kind, mixed, with what follows stored in the same step."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from millgate.brokers.base import MAX_BATCH, Broker, State
from millgate.errors import InvalidInput, InvalidMessage
from millgate.fleet import Beat
from millgate.message import Group
from millgate.outcome import Failure, Reason
from millgate.queues import QueuePolicy, Subscription, Undeclared
from millgate.settlement import Ack, Bury, Charge, Drop, Later
from support.builders import a_message, a_topic, some_messages
from support.working import A_FAILURE, Hand, ids

PassTime = Callable[[float], None]


def test_an_ack_keeps_the_result(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.ack(hand.one(), result=b"\x00result\xff")
    known = broker.states([message.id])[0]
    assert (known.state, known.result, known.attempt) == (State.SUCCEEDED, b"\x00result\xff", 1)


def test_an_ack_without_result_is_known_to_have_succeeded(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.ack(hand.one())
    known = broker.states([message.id])[0]
    assert (known.state, known.result) == (State.SUCCEEDED, None)


@pytest.mark.parametrize(
    ("charge", "counts"),
    [(Charge.FAILURE, (1, 0, 0)), (Charge.LOSS, (0, 1, 0)), (Charge.NOTHING, (0, 0, 1))],
)
def test_later_charges_what_it_says(
    broker: Broker, hand: Hand, charge: Charge, counts: tuple[int, int, int]
) -> None:
    broker.publish([a_message()])
    assert broker.settle([Later(hand.one().ref, 0.0, charge, A_FAILURE)]) == ()
    again = hand.one()
    assert (again.failures, again.losses, again.interruptions) == counts
    assert again.attempt == 2


def test_later_waits_as_long_as_it_says(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.publish([message := a_message()])
    hand.fail(hand.one(), delay=0.3)
    assert hand.claim() == []
    assert broker.states([message.id])[0].state is State.DELAYED
    pass_time(0.4)
    assert hand.one().id == message.id


@pytest.mark.parametrize("delay", [1e14, 1e300, inf], ids=str)
def test_later_may_say_longer_than_there_is_time(broker: Broker, hand: Hand, delay: float) -> None:
    broker.publish([a_message(), a_message()])
    late, done = hand.claim(2)
    assert broker.settle([Later(late.ref, delay), Ack(done.ref, b"1", delay)]) == ()
    assert [one.state for one in broker.states([late.id, done.id])] == [
        State.DELAYED,
        State.SUCCEEDED,
    ]


def test_the_last_failure_is_known_while_the_retry_waits(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.fail(hand.one(), delay=60)
    known = broker.states([message.id])[0]
    assert (known.state, known.failure, known.attempt) == (State.DELAYED, A_FAILURE, 1)


def test_bury_keeps_reason_failure_counts_and_worker(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.fail(hand.one())
    hand.bury(hand.one(), reason=Reason.REJECTED)
    letter = broker.dead_letter(message.id)
    assert letter is not None
    assert (letter.reason, letter.failure, letter.attempt) == (Reason.REJECTED, A_FAILURE, 2)
    assert (letter.failures, letter.worker, letter.topic) == (2, hand.worker.name, "default")
    known = broker.states([message.id])[0]
    assert (known.state, known.reason, known.failure) == (State.FAILED, Reason.REJECTED, A_FAILURE)


def test_error_texts_may_hold_anything(broker: Broker, hand: Hand) -> None:
    nasty = Failure("a.B", "a\x00b \ud800 ü 'q' \\ {x} \x1b[2J", "Traceback\x00…\n" * 50)
    broker.publish([message := a_message()])
    assert broker.settle([Later(hand.one().ref, 0.0, Charge.FAILURE, nasty)]) == ()
    assert broker.states([message.id])[0].failure == nasty
    assert broker.settle([Bury(hand.one().ref, Reason.FAILED, nasty)]) == ()
    letter = broker.dead_letter(message.id)
    assert letter is not None
    assert letter.failure == nasty
    assert broker.states([message.id])[0].failure == nasty


def test_what_is_settled_without_a_failure_keeps_that_of_the_run_before(
    broker: Broker, hand: Hand
) -> None:
    broker.publish([message := a_message()])
    hand.fail(hand.one())
    broker.settle([Later(hand.one().ref)])
    assert broker.states([message.id])[0].failure == A_FAILURE
    broker.settle([Bury(hand.one().ref, Reason.REJECTED)])
    letter = broker.dead_letter(message.id)
    assert letter is not None
    assert letter.failure == broker.states([message.id])[0].failure == A_FAILURE


def test_drop_is_cancelled_and_no_dead_letter(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.drop(hand.one())
    assert broker.states([message.id])[0].state is State.CANCELLED
    assert broker.dead_letter(message.id) is None


def test_what_follows_is_published_with_the_ack(broker: Broker, hand: Hand) -> None:
    follow = [a_message(topic="next"), a_message(topic="next", delay=60)]
    broker.publish([a_message()])
    assert broker.settle([Ack(hand.one().ref, b"1", publish=follow)]) == ()
    states = [known.state for known in broker.states(ids(follow))]
    assert states == [State.WAITING, State.DELAYED]
    assert hand.one("next").message() == follow[0]


def test_a_claim_hands_over_what_its_settlements_bring_to_a_new_topic(
    broker: Broker, hand: Hand
) -> None:
    broker.publish(some_messages(3, topic="a"))
    either = Subscription(("[ab]",))
    [first] = hand.ask(1, (), either).claims
    settled = [Ack(first.ref, publish=[a_message(topic="b")])]
    claims = hand.ask(5, settled, either).claims
    assert sorted(claim.topic for claim in claims) == ["a", "a", "b"]


def test_a_repeated_ack_publishes_nothing_more(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message()])
    ack = Ack(hand.one().ref, b"1", publish=some_messages(1, topic="next"))
    assert broker.settle([ack]) == ()
    assert broker.settle([ack]) == (ack.claim.id,)
    assert broker.stats().topics["next"].enqueued == 1


def test_a_follower_may_take_over_the_unique_text(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message(unique="u")])
    follow = a_message(topic="next", unique="u")
    broker.settle([Ack(hand.one().ref, publish=[follow])])
    assert broker.states([follow.id])[0].state is State.WAITING


def test_what_follows_is_taken_by_a_full_queue_and_by_an_undeclared_topic(
    broker: Broker, hand: Hand
) -> None:
    """Accepted work must be able to end."""
    broker.publish(some_messages(3))
    claim = hand.one()
    broker.configure([], QueuePolicy(max_waiting=2, undeclared=Undeclared.REJECT))
    follow = some_messages(2, topic="strange")
    assert broker.settle([Ack(claim.ref, publish=follow)]) == ()
    assert broker.stats().topics["strange"].waiting == 2


def test_a_follower_that_breaks_a_rule_is_refused_with_the_whole_call(
    broker: Broker, hand: Hand
) -> None:
    broker.configure([a_topic(payload_max=500)])
    broker.publish(some_messages(2))
    first, second = hand.claim(2)
    with pytest.raises(InvalidMessage):
        broker.settle([Ack(first.ref), Ack(second.ref, publish=[a_message(body=b"x" * 501)])])
    assert broker.stats().topics["default"].leased == 2
    hand.ack(first, second)


def test_a_mixed_batch_is_carried_out_in_order_and_the_stale_ones_are_named(
    broker: Broker, hand: Hand
) -> None:
    messages = some_messages(5)
    broker.publish(messages)
    acked, later, buried, dropped, twice = hand.claim(5)
    stale = broker.settle(
        [
            Ack(acked.ref, b"1"),
            Later(later.ref, 60.0),
            Bury(buried.ref, Reason.FAILED, A_FAILURE),
            Ack(acked.ref, b"2"),
            Drop(dropped.ref),
            Bury(twice.ref, Reason.TIMED_OUT),
            Ack(twice.ref, b"3"),
        ]
    )
    assert stale == (acked.id, twice.id)
    assert [known.state for known in broker.states(ids(messages))] == [
        State.SUCCEEDED,
        State.DELAYED,
        State.FAILED,
        State.CANCELLED,
        State.FAILED,
    ]
    assert broker.states([acked.id])[0].result == b"1"


@pytest.mark.parametrize("frees", [Bury, Drop])
@pytest.mark.parametrize("first", [True, False])
def test_a_text_is_free_for_what_follows_later_in_the_batch(
    broker: Broker, hand: Hand, frees: type[Bury] | type[Drop], first: bool
) -> None:
    broker.publish([a_message(topic="holder", unique="u"), a_message(), a_message()])
    holder, parent, last = hand.one("holder"), hand.one("default"), hand.one("default")
    freed = Bury(holder.ref, Reason.FAILED) if frees is Bury else Drop(holder.ref)
    follower = a_message(topic="next", unique="u")
    batch = [freed, Ack(parent.ref, publish=[follower])]
    assert broker.settle([*(batch if first else batch[::-1]), Ack(last.ref)]) == ()
    assert (broker.states([follower.id])[0].state is State.WAITING) is first


@pytest.mark.parametrize("first", ["buried", "done"])
def test_what_a_batch_brings_has_the_order_of_the_batch(
    broker: Broker, hand: Hand, first: str
) -> None:
    callbacks = []
    for name in ("buried", "done"):
        member, callback = a_message(topic=name, group=name), a_message(topic="next")
        broker.publish([member], Group(name, (member.id,), callback, require_all=False))
        callbacks.append(callback.id)
    broker.publish([a_message(topic="parent")])
    follower = a_message(topic="next")
    buried, done, parent = hand.one("buried"), hand.one("done"), hand.one("parent")
    bury = Bury(buried.ref, Reason.FAILED)
    acks = [Ack(parent.ref, publish=[follower]), Ack(done.ref)]
    later = [follower.id, callbacks[1]]
    assert broker.settle([bury, *acks] if first == "buried" else [*acks, bury]) == ()
    expected = [callbacks[0], *later] if first == "buried" else [*later, callbacks[0]]
    assert ids(hand.claim(5, "next")) == expected


def test_an_older_claim_of_the_same_message_takes_nothing_from_the_newer(
    broker: Broker, hand: Hand
) -> None:
    broker.publish([a_message()])
    older = hand.one()
    broker.requeue([older.id])
    newer = hand.one()
    broker.cancel([newer.id])
    answer = broker.extend(hand.worker, [older.ref, newer.ref], Beat())
    assert (answer.lost, answer.cancelled) == ((older.id,), (newer.id,))
    assert broker.settle([Ack(older.ref), Ack(newer.ref)]) == (older.id,)
    assert broker.states([newer.id])[0].state is State.SUCCEEDED


def test_a_fenced_and_an_unregistered_worker_still_settle(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(2))
    first, second = hand.claim(2)
    broker.fence(hand.worker.name, 60)
    answer = hand.ask(5, [Ack(first.ref)])
    assert (answer.stale, answer.claims) == ((), ())
    Hand(broker, hand.worker.name)  # a new start: the old one is unknown now
    assert hand.ask(5, [Ack(second.ref)]).stale == ()
    assert broker.stats().topics["default"].completed == 2


def test_a_cancelled_run_is_not_tried_again(broker: Broker, hand: Hand) -> None:
    first, second = some_messages(2)
    broker.publish([first, second])
    claims = hand.claim(2)
    broker.cancel(ids(claims))
    hand.fail(claims[0])
    hand.bury(claims[1])
    assert [known.state for known in broker.states(ids(claims))] == [State.CANCELLED] * 2
    assert hand.claim() == []
    assert broker.dead() == []


def test_a_run_that_succeeds_before_it_is_stopped_has_succeeded(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    claim = hand.one()
    broker.cancel([message.id])
    hand.ack(claim, result=b"1")
    assert broker.states([message.id])[0].state is State.SUCCEEDED


def test_an_empty_settlement_and_one_that_is_too_large(broker: Broker, hand: Hand) -> None:
    assert broker.settle([]) == ()
    broker.publish([a_message()])
    ref = hand.one().ref
    with pytest.raises(InvalidInput):
        broker.settle([Ack(ref)] * (MAX_BATCH + 1))
    assert broker.settle([Ack(ref)]) == ()
