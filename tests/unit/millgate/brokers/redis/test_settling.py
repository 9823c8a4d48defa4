"""Settlements → the scripts' arguments, in order."""

from __future__ import annotations

import pytest

from millgate.brokers.redis.settling import read_token, settling, token_of
from millgate.errors import InvalidMessage
from millgate.message import ClaimRef
from millgate.outcome import Failure, Reason
from millgate.settlement import Ack, Bury, Charge, Drop, Later
from support.builders import a_message

CALL = "00000000000000ff"
CODE = bytes.fromhex(CALL)


def a_ref(name: str, call: str = CALL) -> ClaimRef:
    return ClaimRef(name, "t", token_of(call, name.encode()))


def test_a_token_is_read_back() -> None:
    assert read_token(a_ref("m1")) == CODE


@pytest.mark.parametrize(
    "token", ["", "x", "00000000000000ff", "zz000000000000ff1", "1.2.3", f"{CALL}0"]
)
def test_a_token_of_somebody_elses_is_none_of_ours(token: str) -> None:
    assert read_token(ClaimRef("m1", "t", token)) is None


def test_a_token_of_another_message_is_none_of_this_ones() -> None:
    assert read_token(ClaimRef("m2", "t", a_ref("m1").token)) is None


def test_plain_acks_of_one_call_travel_together() -> None:
    other = "1" * 16
    acks = [Ack(a_ref("a")), Ack(a_ref("b")), Ack(a_ref("c", other))]
    assert settling(acks) == ["A", CODE, 2, "a", "b", "A", bytes.fromhex(other), 1, "c"]


def test_the_second_ack_of_an_id_comes_after_the_first() -> None:
    assert settling([Ack(a_ref("a")), Ack(a_ref("a"))]) == ["A", CODE, 1, "a", "A", CODE, 1, "a"]


def test_a_forged_token_is_nobodys_and_keeps_its_place() -> None:
    made = settling([Ack(ClaimRef("z", "t", "forged")), Drop(a_ref("a"))])
    assert made == ["A", bytes(8), 1, "z", "X", CODE, "a"]


def test_the_others_travel_one_by_one_in_order() -> None:
    failure = Failure("E", "m", "t")
    made = settling(
        [
            Ack(a_ref("a"), b"r", 5.0),
            Later(a_ref("b"), -3.0, Charge.LOSS, failure),
            Bury(a_ref("c"), Reason.TIMED_OUT),
        ]
    )
    assert made[:7] == ["R", CODE, "a", "1", b"r", "5.0", 0]
    assert made[7:13] == ["D", CODE, "b", "0.0", "L", '["E", "m", "t"]']
    assert made[13:] == ["B", CODE, "c", "TimedOut", ""]


def test_a_follower_that_cannot_be_stored_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidMessage):
        settling([Ack(a_ref("a"), publish=[a_message(topic="no good")])])
