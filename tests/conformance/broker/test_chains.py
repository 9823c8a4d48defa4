"""Groups whose member is a later step of a chain: nobody waits for a step that cannot come any more."""

from __future__ import annotations

import pytest

from millgate.brokers.base import Broker, State
from millgate.message import Claim, Group, Message
from millgate.outcome import Reason
from millgate.settlement import Ack
from support.builders import a_message
from support.working import Hand


def a_chain(broker: Broker, *steps: Message) -> Message:
    """Publish a chain whose last step is all that a group waits for; the group's callback."""
    first, *rest = steps
    callback = a_message(topic="callback")
    sent = a_message(**{**_fields(first), "chain": tuple(rest)})
    broker.publish([sent], Group(f"g-{callback.id}", (steps[-1].id,), callback))
    return callback


def _fields(message: Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in ("id", "topic", "unique")}


def go_on(broker: Broker, claim: Claim, *steps: Message) -> None:
    """End a step well, as a worker does: with the next one, which has the rest on board."""
    following = [a_message(**{**_fields(s), "chain": steps[1:]}) for s in steps[:1]]
    assert broker.settle([Ack(claim.ref, publish=following)]) == ()


def state(broker: Broker, message: Message) -> State:
    return broker.states([message.id])[0].state


def gave_up(broker: Broker, callback: Message, member: Message) -> None:
    """Expect that the callback lies in the dead letters because of that member."""
    letter = broker.dead_letter(callback.id)
    assert letter is not None
    assert letter.reason == Reason.MEMBER_FAILED
    assert letter.failure is not None
    assert letter.failure.message.endswith(f"did not succeed: {member.id}")


def test_a_step_whose_text_is_taken_ends_its_member(broker: Broker, hand: Hand) -> None:
    broker.publish([a_message(topic="holder", unique="u")])
    last = a_message(topic="last", unique="u")
    callback = a_chain(broker, a_message(), last)
    go_on(broker, hand.one("default"), last)
    gave_up(broker, callback, last)


def test_a_step_that_is_taken_by_its_text_ends_the_members_behind_it(
    broker: Broker, hand: Hand
) -> None:
    broker.publish([a_message(topic="holder", unique="u")])
    middle, last = a_message(topic="middle", unique="u"), a_message(topic="last")
    callback = a_chain(broker, a_message(), middle, last)
    go_on(broker, hand.one("default"), middle, last)
    gave_up(broker, callback, last)


@pytest.mark.parametrize("end", ["before", "after"])
def test_a_member_that_was_there_already_is_waited_for(
    broker: Broker, hand: Hand, end: str
) -> None:
    broker.publish([last := a_message(topic="last")])
    callback = a_chain(broker, a_message(), last)
    held = hand.one("last")
    if end == "before":
        hand.ack(held)
    go_on(broker, hand.one("default"), last)
    if end == "after":
        assert state(broker, callback) is State.UNKNOWN
        hand.ack(held)
    assert hand.one("callback").id == callback.id


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("well", [True, False])
def test_a_step_that_was_there_already_and_leads_nowhere_ends_its_member(
    broker: Broker, hand: Hand, end: str, well: bool
) -> None:
    middle, last = a_message(topic="middle"), a_message(topic="last")
    broker.publish([middle])
    callback = a_chain(broker, a_message(), middle, last)
    held = hand.one("middle")
    if end == "after":
        go_on(broker, hand.one("default"), middle, last)
        assert state(broker, callback) is State.UNKNOWN
    if well:
        hand.ack(held)
    else:
        hand.bury(held)
    if end == "before":
        assert state(broker, callback) is State.UNKNOWN
        go_on(broker, hand.one("default"), middle, last)
    gave_up(broker, callback, last)


def test_a_step_that_was_there_already_and_goes_on_is_followed(broker: Broker, hand: Hand) -> None:
    middle, last = a_message(topic="middle"), a_message(topic="last")
    broker.publish([a_message(**{**_fields(middle), "chain": (last,)})])
    callback = a_chain(broker, a_message(), middle, last)
    go_on(broker, hand.one("default"), middle, last)
    go_on(broker, hand.one("middle"), last)
    assert state(broker, callback) is State.UNKNOWN
    hand.ack(hand.one("last"))
    assert hand.one("callback").id == callback.id


@pytest.mark.parametrize("end", ["before", "after"])
@pytest.mark.parametrize("well", [True, False])
def test_a_first_step_that_was_there_already_and_leads_nowhere_ends_its_member(
    broker: Broker, hand: Hand, end: str, well: bool
) -> None:
    first, last = a_message(), a_message(topic="last")
    broker.publish([first])
    held = hand.one("default")
    finish = hand.ack if well else hand.bury
    if end == "before":
        finish(held)
    callback = a_chain(broker, first, last)
    if end == "after":
        assert state(broker, callback) is State.UNKNOWN
        finish(held)
    gave_up(broker, callback, last)


def test_a_first_step_that_was_there_already_and_goes_on_is_followed(
    broker: Broker, hand: Hand
) -> None:
    first, last = a_message(), a_message(topic="last")
    broker.publish([a_message(**{**_fields(first), "chain": (last,)})])
    go_on(broker, hand.one("default"), last)
    callback = a_chain(broker, first, last)
    assert state(broker, callback) is State.UNKNOWN
    hand.ack(hand.one("last"))
    assert hand.one("callback").id == callback.id


def test_each_member_of_a_chain_is_told_apart(broker: Broker, hand: Hand) -> None:
    steps = [a_message(topic=name) for name in ("default", "middle", "last")]
    broker.publish([steps[1]])
    callback = a_message(topic="callback")
    group = Group("g", tuple(step.id for step in steps), callback, require_all=False)
    broker.publish([a_message(**{**_fields(steps[0]), "chain": tuple(steps[1:])})], group)
    go_on(broker, hand.one("default"), *steps[1:])
    assert state(broker, callback) is State.UNKNOWN
    hand.ack(hand.one("middle"))
    claim = hand.one("callback")
    assert (claim.id, claim.message().gather) == (callback.id, group.members)
