"""Settlements → columns, and which of them were stale."""

from __future__ import annotations

import pytest

from millgate.brokers.base import MAX_BATCH
from millgate.brokers.postgres.settling import NOTHING, read_token, settling, token_of
from millgate.errors import InvalidInput, InvalidMessage
from millgate.message import ClaimRef
from millgate.outcome import Failure, Reason
from millgate.settlement import Ack, Bury, Charge, Drop, Later
from support.builders import a_message


def a_ref(seq: int, call: int = 7, name: str | None = None) -> ClaimRef:
    name = name or f"m{seq}"
    return ClaimRef(name, "t", token_of(seq, call, name))


@pytest.mark.parametrize(("seq", "call"), [(1, 0), (255, 1 << 62), ((1 << 63) - 1, 5)])
def test_a_token_is_read_back(seq: int, call: int) -> None:
    assert read_token(a_ref(seq, call)) == (seq, call)


@pytest.mark.parametrize(
    "token", ["", "x", "1.2", "1.2.3", "-1.2.3", "1.2.3.4", f"{1 << 64:x}.1.1", "local-token"]
)
def test_a_token_of_somebody_elses_is_none_of_ours(token: str) -> None:
    assert read_token(ClaimRef("m1", "t", token)) is None


def test_a_token_of_another_message_is_none_of_this_ones() -> None:
    assert read_token(ClaimRef("m2", "t", a_ref(1).token)) is None


def test_what_was_not_carried_out_is_stale_in_order() -> None:
    strange = ClaimRef("z", "t", "forged")
    made = settling([Ack(a_ref(1)), Ack(strange), Drop(a_ref(2)), Ack(a_ref(1)), Ack(a_ref(3))])
    assert made.stale({1, 3}) == ("z", "m2", "m1")
    assert made.stale(()) == ("m1", "z", "m2", "m1", "m3")


def test_acks_and_the_rest_travel_apart() -> None:
    failure = Failure("E", "m", "t")
    made = settling(
        [
            Ack(a_ref(1), b"r", 5.0),
            Later(a_ref(2), 3.0, Charge.LOSS, failure),
            Bury(a_ref(3), Reason.TIMED_OUT),
            Drop(a_ref(4)),
        ]
    )
    columns = [None if c is None else list(c.values) for c in made.columns]
    assert len(columns) == len(NOTHING)
    assert columns[:4] == [[1], [7], [b"r"], [5.0]]
    assert columns[4] == [2, 3, 4]
    assert columns[6:9] == [[1, 2, 3], [3.0, 0.0, 0.0], [1, 0, 0]]
    assert columns[10] == [None, "TimedOut", None]
    assert made.gave_back


def test_plain_acks_send_nothing_that_they_do_not_need() -> None:
    made = settling([Ack(a_ref(1)), Ack(a_ref(2))])
    assert [column is None for column in made.columns] == [False, False] + [True] * 24
    assert not made.gave_back


def test_an_order_is_sent_only_where_others_come_before_acks() -> None:
    first, other, last = Ack(a_ref(1)), Drop(a_ref(2)), Ack(a_ref(3))
    assert settling([first, last, other]).columns[11] is None
    assert settling([first, other, last]).columns[11].values == [1]


def test_what_an_ack_publishes_names_its_parent() -> None:
    made = settling([Ack(a_ref(1)), Ack(a_ref(2), publish=[a_message(id="n")])])
    parents, _, names = made.columns[12:15]
    assert (parents.values, names.values) == ([2], ["n"])


def test_too_many_and_what_cannot_be_stored_are_refused() -> None:
    with pytest.raises(InvalidInput, match=str(MAX_BATCH)):
        settling([Ack(a_ref(n)) for n in range(MAX_BATCH + 1)])
    with pytest.raises(InvalidMessage):
        settling([Ack(a_ref(1), publish=[a_message(id="no good id")])])
