"""states, wait and progress: what is known of a message, kept as long as promised, with waiters woken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from millgate.brokers.base import Broker, State
from millgate.settlement import Ack
from support.builders import a_message, a_topic, some_messages
from support.wait import eventually
from support.working import A_FAILURE, Hand, ids

PassTime = Callable[[float], None]
pytestmark = pytest.mark.usefixtures("nobody_looks_now_and_then")


def test_an_unknown_id_is_unknown(broker: Broker) -> None:
    known = broker.states(["nobody"])[0]
    assert (known.id, known.state, known.result) == ("nobody", State.UNKNOWN, None)


def test_states_are_answered_in_the_order_asked(broker: Broker, hand: Hand) -> None:
    messages = some_messages(3)
    broker.publish(messages)
    asked = [messages[2].id, "nobody", messages[0].id, messages[2].id]
    assert [known.id for known in broker.states(asked)] == asked
    assert broker.states([]) == []


def test_a_running_message_names_its_worker(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.one()
    known = broker.states([message.id])[0]
    assert (known.state, known.worker, known.attempt, known.topic) == (
        State.RUNNING,
        hand.worker.name,
        1,
        "default",
    )


def test_a_result_lives_as_long_as_the_ack_the_message_or_the_topic_says(
    broker: Broker, hand: Hand, pass_time: PassTime
) -> None:
    broker.configure([a_topic(result_ttl=600.0)])
    by_topic, by_message, by_ack = a_message(), a_message(result_ttl=0.5), a_message(result_ttl=600)
    broker.publish([by_topic, by_message, by_ack])
    first, second, third = hand.claim(3)
    broker.settle([Ack(first.ref, b"1"), Ack(second.ref, b"2"), Ack(third.ref, b"3", 0.5)])
    everything = ids([by_topic, by_message, by_ack])
    assert [known.result for known in broker.states(everything)] == [b"1", b"2", b"3"]
    pass_time(0.6)

    def gone() -> bool:
        pass_time(0.05)
        return [known.result for known in broker.states(everything)] == [b"1", None, None]

    eventually(gone, timeout=4)


def test_a_result_nobody_wants_is_not_kept(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message(result_ttl=0)])
    hand.ack(hand.one(), result=b"1")
    known = broker.states([message.id])[0]
    assert (known.state, known.result) == (State.SUCCEEDED, None)


def test_a_failure_is_kept_with_its_text(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message(result_ttl=0)])
    hand.bury(hand.one())
    broker.purge_dead()
    known = broker.states([message.id])[0]
    assert (known.state, known.failure, known.reason) == (State.FAILED, A_FAILURE, "Failed")


def test_large_results_arrive_whole(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.ack(hand.one(), result=b"\x00\xff" * 500_000)
    assert broker.states([message.id])[0].result == b"\x00\xff" * 500_000


# --- waiting -------------------------------------------------------------------------------------


def waited(
    broker: Broker, wanted: list[str], timeout: float = 8.0
) -> tuple[list[object], threading.Thread]:
    """Wait in a thread; the list gets the states and the seconds that it took."""
    answer: list[object] = []

    def wait() -> None:
        start = time.monotonic()
        states = broker.wait(wanted, timeout)
        answer.extend(([known.state for known in states], time.monotonic() - start))

    thread = threading.Thread(target=wait)
    thread.start()
    return answer, thread


def test_a_wait_is_woken_by_each_kind_of_end(
    broker: Broker, make_broker: Callable[[], Broker], hand: Hand
) -> None:
    waiter = make_broker()
    ends: list[tuple[Callable[[], object], State]] = [
        (lambda: hand.ack(hand.one(), result=b"1"), State.SUCCEEDED),
        (lambda: hand.ack(hand.one()), State.SUCCEEDED),
        (lambda: hand.bury(hand.one()), State.FAILED),
        (lambda: hand.drop(hand.one()), State.CANCELLED),
        (lambda: broker.purge("default"), State.CANCELLED),
    ]
    for end, state in ends:
        broker.publish([message := a_message()])
        answer, thread = waited(waiter, [message.id])
        time.sleep(0.1)
        assert answer == []
        end()
        thread.join(5)
        assert answer[0] == [state]
        assert float(str(answer[1])) < 4


def test_a_wait_for_several_ends_with_the_first(
    broker: Broker, make_broker: Callable[[], Broker], hand: Hand
) -> None:
    first, second = some_messages(2)
    broker.publish([first, second])
    answer, thread = waited(make_broker(), ids([second, first]))
    time.sleep(0.05)
    hand.ack(hand.one())
    thread.join(5)
    assert answer[0] == [State.WAITING, State.SUCCEEDED]


def test_a_wait_for_what_has_ended_returns_at_once(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    hand.ack(hand.one(), result=b"1")
    start = time.monotonic()
    assert broker.wait([message.id], 8.0)[0].result == b"1"
    assert time.monotonic() - start < 4


def test_a_wait_for_nothing_returns_at_once(broker: Broker) -> None:
    before = time.monotonic()
    assert broker.wait([], 30.0) == []
    assert time.monotonic() - before < 20


def test_a_wait_in_vain_ends_in_time_and_says_what_is_known(broker: Broker) -> None:
    broker.publish([message := a_message()])
    start = time.monotonic()
    states = broker.wait([message.id, "nobody"], 0.3)
    assert 0.25 < time.monotonic() - start < 5
    assert [known.state for known in states] == [State.WAITING, State.UNKNOWN]


def test_many_waiters_are_all_woken(
    broker: Broker, make_broker: Callable[[], Broker], hand: Hand
) -> None:
    messages = some_messages(5)
    broker.publish(messages)
    client = make_broker()
    waits = [waited(client, [message.id]) for message in messages for _ in range(2)]
    time.sleep(0.1)
    hand.run_all()
    for answer, thread in waits:
        thread.join(5)
        assert answer[0] == [State.SUCCEEDED]


# --- progress ------------------------------------------------------------------------------------


def test_progress_is_shown_while_it_runs_and_the_latest_wins(broker: Broker, hand: Hand) -> None:
    broker.publish([message := a_message()])
    claim = hand.one()
    assert broker.states([message.id])[0].progress is None
    assert broker.progress(claim.ref, b"10") is True
    assert broker.progress(claim.ref, b"\x00 20") is True
    assert broker.states([message.id])[0].progress == b"\x00 20"
    hand.ack(claim, result=b"1")
    assert broker.progress(claim.ref, b"30") is False
    assert broker.states([message.id])[0].progress != b"30"
