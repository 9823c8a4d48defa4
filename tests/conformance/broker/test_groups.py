"""Groups: the callback runs once, when the last member has ended, however it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from millgate.brokers.base import Broker, CancelState, State
from millgate.errors import InvalidMessage
from millgate.message import Group, Message
from millgate.outcome import Reason
from millgate.retry import RetryPolicy
from millgate.settlement import Ack
from support.builders import a_message, a_topic, some_messages
from support.wait import eventually
from support.working import Hand, ids

PassTime = Callable[[float], None]


def a_group(
    broker: Broker, size: int, *, require_all: bool = True, **fields: Any
) -> tuple[list[Message], Message]:
    """Publish a group; its members and its callback."""
    callback = a_message(topic="callback")
    name = f"g-{callback.id}"
    members = [a_message(group=name, **fields) for _ in range(size)]
    group = Group(name, tuple(ids(members)), callback, require_all)
    broker.publish(members, group)
    return members, callback


def state(broker: Broker, message: Message) -> State:
    return broker.states([message.id])[0].state


def test_the_callback_comes_with_the_last_member(broker: Broker, hand: Hand) -> None:
    members, callback = a_group(broker, 3)
    claims = hand.claim(3, "default")
    assert {claim.group for claim in claims} == {members[0].group}
    for claim in claims:
        assert state(broker, callback) is State.UNKNOWN
        hand.ack(claim, result=b"1")
    claim = hand.one("callback")
    assert (claim.id, claim.message().gather) == (callback.id, tuple(ids(members)))


def test_members_that_end_in_one_call_bring_one_callback(broker: Broker, hand: Hand) -> None:
    a_group(broker, 50)
    hand.ack(*hand.claim(50, "default"))
    assert len(hand.claim(5)) == 1


def test_a_retry_is_not_an_end(broker: Broker, hand: Hand) -> None:
    _, callback = a_group(broker, 1)
    hand.fail(hand.one())
    assert state(broker, callback) is State.UNKNOWN
    hand.ack(hand.one())
    assert state(broker, callback) is State.WAITING


def test_a_repeated_ack_counts_once(broker: Broker, hand: Hand) -> None:
    _, callback = a_group(broker, 2)
    claim = hand.one()
    broker.settle([Ack(claim.ref), Ack(claim.ref)])
    assert state(broker, callback) is State.UNKNOWN


def test_a_failed_member_buries_the_callback_that_needs_all(broker: Broker, hand: Hand) -> None:
    members, callback = a_group(broker, 3)
    good, bad, other = hand.claim(3, "default")
    hand.bury(bad)
    hand.ack(good)
    assert state(broker, callback) is State.UNKNOWN
    hand.ack(other)
    letter = broker.dead_letter(callback.id)
    assert letter is not None
    assert letter.reason == Reason.MEMBER_FAILED
    assert letter.failure is not None
    assert letter.failure.message == (
        f"members of group {members[0].group!r} did not succeed: {bad.id}"
    )
    assert letter.message is not None
    assert letter.message.gather == tuple(ids(members))
    assert state(broker, callback) is State.FAILED
    assert hand.claim(5) == []


def test_a_failed_member_that_stands_for_two_is_named_once(broker: Broker, hand: Hand) -> None:
    members, callback = a_group(broker, 2, unique="one of it")
    hand.bury(hand.one())
    letter = broker.dead_letter(callback.id)
    assert letter is not None
    assert letter.failure is not None
    assert letter.failure.message == (
        f"members of group {members[0].group!r} did not succeed: {members[0].id}"
    )


def test_a_failed_member_does_not_stop_a_callback_that_takes_what_there_is(
    broker: Broker, hand: Hand
) -> None:
    _, callback = a_group(broker, 2, require_all=False)
    first, second = hand.claim(2, "default")
    hand.bury(first)
    hand.ack(second)
    assert hand.one("callback").id == callback.id


@pytest.mark.parametrize("end", ["cancel", "drop", "purge", "expire"])
def test_every_other_end_of_a_member_is_told(
    broker: Broker, hand: Hand, pass_time: PassTime, end: str
) -> None:
    fields: dict[str, Any] = {"expires_in": 0.2} if end == "expire" else {}
    members, callback = a_group(broker, 1, **fields)
    if end == "cancel":
        broker.cancel(ids(members))
    elif end == "drop":
        hand.drop(hand.one())
    elif end == "purge":
        broker.purge("default")
    else:
        pass_time(0.3)
        assert hand.claim(1, "default") == []
    assert state(broker, callback) is State.FAILED


def test_a_purge_leaves_the_callback_that_it_brings_about(broker: Broker, hand: Hand) -> None:
    callback = a_message()
    member = a_message(group="g")
    broker.publish([member], Group("g", (member.id,), callback, require_all=False))
    assert broker.purge("default") == 1
    assert ids(hand.claim(5)) == [callback.id]


@pytest.mark.parametrize("first", ["callback", "member"])
def test_a_cancel_leaves_the_callback_that_it_brings_about(
    broker: Broker, hand: Hand, first: str
) -> None:
    [member], callback = a_group(broker, 1, require_all=False)
    word = {member.id: CancelState.REMOVED, callback.id: CancelState.UNKNOWN}
    named = sorted(word, key=lambda name: (name == callback.id) != (first == "callback"))
    assert broker.cancel(named) == [word[name] for name in named]
    assert ids(hand.claim(5)) == [callback.id]


def test_a_lost_member_is_told(broker: Broker, hand: Hand, pass_time: PassTime) -> None:
    broker.configure([a_topic(lease=1.0, retry=RetryPolicy(losses=0))])
    _, callback = a_group(broker, 1)
    hand.one()
    pass_time(1.1)

    def told() -> bool:
        pass_time(0.05)
        hand.claim(1, "default")
        return state(broker, callback) is State.FAILED

    eventually(told, timeout=4)


def test_a_group_of_none_brings_its_callback_at_once(broker: Broker, hand: Hand) -> None:
    _, callback = a_group(broker, 0)
    assert hand.one("callback").id == callback.id


def test_a_repeated_publish_of_a_group_brings_one_callback(broker: Broker, hand: Hand) -> None:
    callback = a_message(topic="callback")
    members = [a_message(group="g") for _ in range(2)]
    group = Group("g", tuple(ids(members)), callback)
    broker.publish(members, group)
    hand.ack(hand.one("default"))
    broker.publish(members, group)
    hand.ack(hand.one("default"))
    broker.publish(members, group)
    assert ids(hand.claim(5)) == [callback.id]


def test_a_member_that_duplicates_another_message_waits_for_that_one(
    broker: Broker, hand: Hand
) -> None:
    holder = a_message(unique="u")
    broker.publish([holder])
    callback = a_message(topic="callback")
    member = a_message(unique="u", group="g")
    broker.publish([member], Group("g", (member.id,), callback))
    assert state(broker, callback) is State.UNKNOWN
    hand.ack(hand.one("default"), result=b"1")
    claim = hand.one("callback")
    assert claim.message().gather == (holder.id,)


def test_a_member_that_is_no_message_of_the_call_is_refused_whole(broker: Broker) -> None:
    member = a_message(group="g")
    with pytest.raises(InvalidMessage, match="stranger"):
        broker.publish([member], Group("g", (member.id, "stranger"), a_message()))
    assert state(broker, member) is State.UNKNOWN


def test_a_callback_that_breaks_a_rule_is_refused_whole(broker: Broker) -> None:
    member = a_message(group="g")
    with pytest.raises(InvalidMessage):
        broker.publish([member], Group("g", (member.id,), a_message(topic="no good")))
    assert state(broker, member) is State.UNKNOWN


def test_a_replayed_member_that_succeeds_revives_the_callback_once(
    broker: Broker, hand: Hand
) -> None:
    _, callback = a_group(broker, 2)
    good, bad = hand.claim(2, "default")
    hand.bury(bad)
    hand.ack(good)
    assert state(broker, callback) is State.FAILED
    assert broker.replay([bad.id]) == [bad.id]
    assert broker.dead_letter(callback.id) is None
    hand.ack(hand.one("default"))
    assert ids(hand.claim(5)) == [callback.id]


def test_a_callback_that_was_replayed_by_hand_does_not_come_again(
    broker: Broker, hand: Hand
) -> None:
    _, callback = a_group(broker, 1)
    bad = hand.one("default")
    hand.bury(bad)
    assert broker.replay([callback.id]) == [callback.id]
    hand.ack(hand.one("callback"))
    assert broker.replay([bad.id]) == [bad.id]
    hand.ack(hand.one("default"))
    assert hand.claim(5) == []
    assert state(broker, callback) is State.SUCCEEDED


def test_a_group_that_was_given_up_leaves_its_members_to_the_others(
    broker: Broker, hand: Hand
) -> None:
    member, first, second = a_message(), *some_messages(2, topic="callback")
    broker.publish([member], Group("g1", (member.id,), first))
    broker.publish([member], Group("g2", (member.id,), second))
    hand.bury(hand.one("default"))
    assert broker.purge_dead(ids=[first.id]) == 1
    broker.replay([member.id])
    hand.ack(hand.one("default"))
    assert ids(hand.claim(5)) == [second.id]


def test_a_replayed_member_revives_every_group_that_waits_for_it(
    broker: Broker, hand: Hand
) -> None:
    member, first, second = a_message(), *some_messages(2, topic="callback")
    for name, callback in (("g1", first), ("g2", second)):
        broker.publish([member], Group(name, (member.id,), callback))
    hand.bury(hand.one("default"))
    assert [state(broker, callback) for callback in (first, second)] == [State.FAILED] * 2
    broker.replay([member.id])
    hand.ack(hand.one("default"))
    assert sorted(ids(hand.claim(5))) == sorted([first.id, second.id])


def test_what_is_published_beside_the_members_is_nothing_to_the_group(
    broker: Broker, hand: Hand
) -> None:
    member, callback = a_message(group="g"), a_message(topic="callback")
    other = a_message(topic="other", chain=(a_message(topic="other"),))
    broker.publish([other, member], Group("g", (member.id,), callback))
    hand.bury(hand.one("other"))
    assert state(broker, callback) is State.UNKNOWN
    hand.ack(hand.one("default"))
    assert ids(hand.claim(5)) == [callback.id]


def test_the_last_step_of_a_chain_may_be_a_member(broker: Broker, hand: Hand) -> None:
    last = a_message(topic="last", group="g")
    first = a_message(chain=(last,))
    callback = a_message(topic="callback")
    broker.publish([first], Group("g", (last.id,), callback))
    assert broker.settle([Ack(hand.one("default").ref, publish=[last])]) == ()
    assert state(broker, callback) is State.UNKNOWN
    hand.ack(hand.one("last"))
    assert state(broker, callback) is State.WAITING


def test_a_chain_that_breaks_before_its_member_is_told(broker: Broker, hand: Hand) -> None:
    last = a_message(topic="last", group="g")
    first = a_message(chain=(last,))
    callback = a_message(topic="callback")
    broker.publish([first], Group("g", (last.id,), callback))
    hand.bury(hand.one("default"))
    assert state(broker, callback) is State.FAILED


def test_racing_workers_bring_one_callback(
    make_broker: Callable[[], Broker], broker: Broker, hand: Hand
) -> None:
    callbacks = []
    for _ in range(5):
        _, callback = a_group(broker, 40)
        callbacks.append(callback.id)
    threads = [
        threading.Thread(target=Hand(make_broker()).run_all, args=("default",), kwargs={"batch": 3})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(hand.run_all("callback")) == sorted(callbacks)
