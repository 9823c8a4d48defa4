"""Messages → columns."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from millgate.brokers.base import MAX_BATCH
from millgate.brokers.postgres import drafts
from millgate.errors import InvalidInput, InvalidMessage
from millgate.message import Group
from millgate.rules import check_group
from support.builders import a_message, some_messages


def test_plain_messages_leave_the_optional_columns_out() -> None:
    made = drafts.batch(some_messages(3))
    assert [column is None for column in made.columns] == [False] * 5 + [True] * 9
    assert made.columns[0].values == ["default"]
    assert made.columns[1].values == [1, 1, 1]


def test_topics_are_sent_once() -> None:
    made = drafts.batch([a_message(topic=t) for t in ("a", "b", "a")])
    assert (made.columns[0].values, made.columns[1].values) == (["a", "b"], [1, 2, 1])


def test_an_id_that_comes_twice_is_sent_once() -> None:
    made = drafts.batch([a_message(id="x"), a_message(id="y"), a_message(id="x")])
    assert list(made.places) == [0, 1]
    assert made.columns[2].values == ["x", "y"]


def test_what_one_message_sets_is_a_column_for_all() -> None:
    made = drafts.batch([a_message(), a_message(delay=2.0)])
    assert made.columns[6].values == [None, 2.0]


def test_too_many_and_bad_steps_are_refused() -> None:
    with pytest.raises(InvalidInput, match=str(MAX_BATCH)):
        drafts.batch(some_messages(MAX_BATCH + 1))
    with pytest.raises(InvalidMessage):
        drafts.batch([a_message(chain=(a_message(topic="no good"),))])


def test_a_group_watches_its_members_and_the_steps_that_lead_there() -> None:
    last = a_message(id="c3")
    chained = a_message(id="c1", chain=(a_message(id="c2"), last))
    plain = a_message(id="p")
    group = Group("g", ("c3", "p"), a_message(id="cb"))
    check_group(group, [chained, plain])
    real = {"c1": "c1", "p": "held"}
    assert set(drafts.watches(group, [chained, plain], real)) == {
        ("c1", "c3", 1, 1),
        ("c2", "c3", 1, 2),
        ("c3", "c3", 1, 3),
        ("held", "held", 2, 1),
    }


def test_a_member_from_elsewhere_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="publish them together"):
        check_group(Group("g", ("x",), a_message()), some_messages(2))


def test_what_waits_for_nothing_takes_the_short_way() -> None:
    message = a_message(id="m1", key="k", expires_in=5.0, result_ttl=0.0, group="g", priority=7)
    packed = (b"default", b"m1", pack(">i", 7), message.record(), b"k")
    assert drafts.plain(message) == (*packed, pack(">d", 5.0), None, pack(">d", 0.0), b"g")


@pytest.mark.parametrize(
    "fields",
    [{"delay": 1.0}, {"at": 1.0}, {"unique": "u"}, {"chain": (a_message(),)}],
    ids=lambda fields: next(iter(fields)),
)
def test_what_has_to_wait_or_brings_more_takes_the_long_way(fields: dict[str, Any]) -> None:
    assert drafts.plain(a_message(**fields)) is None


def test_a_message_that_nobody_may_store_is_refused_on_either_way() -> None:
    with pytest.raises(InvalidMessage):
        drafts.plain(a_message(priority=12))
