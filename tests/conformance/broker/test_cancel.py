"""cancel, purge, requeue and peek: taking messages away, back, and looking at them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from millgate.brokers.base import Broker, CancelState, State
from millgate.errors import InvalidInput
from millgate.fleet import Beat
from millgate.message import Group
from millgate.settlement import Ack
from support.builders import a_message, a_topic, some_messages
from support.working import Hand, ids


def test_cancel_removes_what_waits(broker: Broker, hand: Hand) -> None:
    waiting, delayed, retrying = a_message(), a_message(delay=60), a_message(priority=9)
    broker.publish([waiting, delayed, retrying])
    hand.fail(hand.one(), delay=60)
    assert broker.cancel(ids([waiting, delayed, retrying])) == [CancelState.REMOVED] * 3
    assert hand.claim(5) == []
    assert {known.state for known in broker.states(ids([waiting, delayed, retrying]))} == {
        State.CANCELLED
    }
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.delayed, topic.dead, topic.failed) == (0, 0, 0, 3)


def test_cancel_signals_what_runs(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    claim = hand.one()
    assert broker.cancel([message.id]) == [CancelState.SIGNALLED]
    assert broker.cancel([message.id]) == [CancelState.SIGNALLED]
    assert broker.extend(hand.worker, [claim.ref], Beat()).cancelled == (message.id,)
    assert broker.states([message.id])[0].state is State.RUNNING
    hand.drop(claim)
    assert broker.states([message.id])[0].state is State.CANCELLED


def test_cancel_comes_too_late_for_what_has_ended(broker: Broker, hand: Hand) -> None:
    messages = some_messages(4)
    broker.publish(messages)
    claims = hand.claim(4)
    hand.ack(claims[0])
    hand.ack(claims[1], result=b"1")
    hand.bury(claims[2])
    hand.drop(claims[3])
    assert broker.cancel(ids(messages)) == [CancelState.FINISHED] * 4
    assert broker.dead_letter(claims[2].id) is not None


def test_an_id_that_is_named_twice_is_removed_once(broker: Broker) -> None:
    broker.publish([first := a_message(), second := a_message()])
    assert broker.cancel([first.id, second.id, first.id]) == [
        CancelState.REMOVED,
        CancelState.REMOVED,
        CancelState.FINISHED,
    ]


def test_cancel_of_an_unknown_id_says_so(broker: Broker) -> None:
    assert broker.cancel(["nobody"]) == [CancelState.UNKNOWN]


def test_a_callback_that_many_cancelled_members_bring_about_stays(broker: Broker) -> None:
    members, callback = some_messages(300), a_message()
    group = Group("g", tuple(ids(members)), callback, require_all=False)
    broker.publish(members, group)
    answers = broker.cancel([*ids(members), callback.id, members[0].id])
    assert answers[:300] == [CancelState.REMOVED] * 300
    assert answers[300:] == [CancelState.UNKNOWN, CancelState.FINISHED]
    assert broker.states([callback.id])[0].state is State.WAITING


def test_cancel_with_nobody_working_is_not_forgotten(broker: Broker) -> None:
    broker.publish([message := a_message()])
    broker.cancel([message.id])
    assert Hand(broker).claim() == []


def test_in_a_race_with_claims_the_answer_agrees_with_what_happens(
    make_broker: Callable[[], Broker], broker: Broker, hand: Hand
) -> None:
    messages = some_messages(150)
    broker.publish(messages)
    answers: dict[str, CancelState] = {}

    def canceller(client: Broker) -> None:
        for message in reversed(messages):
            answers[message.id] = client.cancel([message.id])[0]

    thread = threading.Thread(target=canceller, args=(make_broker(),))
    thread.start()
    started = []
    while claims := hand.claim(3):
        started += ids(claims)
        broker.settle([Ack(claim.ref) for claim in claims])
    thread.join()
    started += hand.run_all()
    removed = {name for name, answer in answers.items() if answer is CancelState.REMOVED}
    assert removed.isdisjoint(started)
    assert removed | set(started) == set(ids(messages))


# --- purge ---------------------------------------------------------------------------------------


def test_purge_removes_what_waits_and_is_delayed(broker: Broker, hand: Hand) -> None:
    broker.publish([*some_messages(3), a_message(delay=60), a_message(topic="other")])
    claim = hand.one("default")
    assert broker.purge("default") == 3
    topic = broker.stats().topics["default"]
    assert (topic.waiting, topic.delayed, topic.leased) == (0, 0, 1)
    assert broker.stats().topics["other"].waiting == 1
    hand.ack(claim)


def test_purge_removes_only_the_states_that_are_named(broker: Broker, hand: Hand) -> None:
    waiting, delayed = a_message(), a_message(delay=60)
    broker.publish([waiting, delayed])
    assert broker.purge("default", [State.DELAYED]) == 1
    assert broker.purge("default", [State.DELAYED]) == 0
    assert ids(hand.claim(5)) == [waiting.id]


def test_purge_removes_what_a_key_holds_back(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(key_limit=1)])
    broker.publish(some_messages(5, key="k"))
    hand.one()
    assert broker.purge("default") == 4
    assert broker.stats().topics["default"].waiting == 0


def test_purged_messages_are_cancelled(broker: Broker) -> None:
    broker.publish([message := a_message()])
    broker.purge("default")
    assert broker.states([message.id])[0].state is State.CANCELLED


def test_purge_of_an_unknown_topic_removes_nothing(broker: Broker) -> None:
    assert broker.purge("nowhere") == 0


def test_purge_refuses_states_that_it_does_not_remove(broker: Broker) -> None:
    with pytest.raises(InvalidInput, match="running"):
        broker.purge("default", [State.RUNNING])


# --- requeue -------------------------------------------------------------------------------------


def test_requeue_takes_a_run_from_its_holder_uncharged(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    old = hand.one()
    assert broker.requeue([message.id, "nobody"]) == [message.id]
    assert broker.settle([Ack(old.ref)]) == (message.id,)
    assert broker.extend(hand.worker, [old.ref], Beat()).lost == (message.id,)
    new = hand.one()
    assert (new.attempt, new.interruptions, new.failures, new.losses) == (2, 1, 0, 0)


def test_requeue_answers_what_ran_not_what_was_cancelled_before(broker: Broker, hand: Hand) -> None:
    running, gone = a_message(), a_message()
    broker.publish([running])
    hand.one()
    broker.publish([gone])
    assert broker.cancel([gone.id, running.id]) == [CancelState.REMOVED, CancelState.SIGNALLED]
    assert broker.requeue([running.id, gone.id]) == [running.id]
    assert [one.state for one in broker.states([running.id, gone.id])] == [State.CANCELLED] * 2


def test_requeue_leaves_alone_what_does_not_run(broker: Broker, hand: Hand) -> None:
    messages = [a_message(), a_message(delay=60)]
    broker.publish(messages)
    assert broker.requeue(ids(messages)) == []


def test_a_cancelled_run_that_is_requeued_does_not_run_again(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.one()
    broker.cancel([message.id])
    broker.requeue([message.id])
    assert hand.claim() == []
    assert broker.states([message.id])[0].state is State.CANCELLED


# --- peek ----------------------------------------------------------------------------------------


def test_peek_shows_waiting_messages_in_the_order_in_which_they_will_run(
    broker: Broker, hand: Hand
) -> None:
    messages = [a_message(priority=priority) for priority in (5, 9, 1, 5)]
    broker.publish(messages)
    order = [messages[1], messages[0], messages[3], messages[2]]
    peeked = broker.peek("default", State.WAITING)
    assert [one.id for one in peeked] == ids(order)
    assert [one.message for one in peeked] == order
    assert [one.id for one in broker.peek("default", State.WAITING, 2)] == ids(order[:2])
    assert hand.run_all(batch=1) == ids(order)


def test_peek_shows_what_a_key_holds_back(broker: Broker, hand: Hand) -> None:
    broker.configure([a_topic(key_limit=1)])
    messages = some_messages(3, key="k")
    broker.publish(messages)
    assert [one.id for one in broker.peek("default", State.WAITING)] == ids(messages)


def test_peek_shows_delayed_messages_and_when_they_are_due(broker: Broker) -> None:
    late, soon = a_message(delay=60), a_message(delay=30)
    broker.publish([late, soon])
    peeked = broker.peek("default", State.DELAYED)
    assert [one.id for one in peeked] == [soon.id, late.id]
    assert peeked[0].due_in is not None
    assert 25 < peeked[0].due_in <= 30.001


def test_peek_shows_what_runs_and_where(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.one()
    (peeked,) = broker.peek("default", State.RUNNING)
    assert (peeked.id, peeked.worker, peeked.attempt) == (message.id, hand.worker.name, 1)
    assert (peeked.state, peeked.due_in) == (State.RUNNING, None)


def test_peek_shows_first_what_was_sent_first_of_a_topic_beside_thousands_that_run(
    broker: Broker, hand: Hand
) -> None:
    crowd = some_messages(5200, topic="crowd")
    for start in range(0, len(crowd), 1000):
        broker.publish(crowd[start : start + 1000])
    messages = some_messages(20)
    broker.publish(messages)
    for topic, count in (("crowd", len(crowd)), ("default", len(messages))):
        claimed = 0
        while claimed < count:
            claimed += len(hand.claim(300, topic))
    assert [one.id for one in broker.peek("default", State.RUNNING, 3)] == ids(messages[:3])
    assert len(broker.peek("default", State.RUNNING, 50)) == 20


def test_peek_touches_nothing(broker: Broker, hand: Hand) -> None:
    broker.publish(some_messages(3))
    before = broker.stats().topics
    for state in (State.WAITING, State.DELAYED, State.RUNNING):
        broker.peek("default", state)
    after = broker.stats().topics
    assert after["default"].waiting == before["default"].waiting == 3
    assert hand.one().attempt == 1


def test_peek_of_an_unknown_topic_is_empty_and_of_a_final_state_refused(broker: Broker) -> None:
    assert broker.peek("nowhere", State.WAITING) == []
    with pytest.raises(InvalidInput):
        broker.peek("default", State.SUCCEEDED)
