"""What no broker stores is refused before anything is written, with words that say how to mend it."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.errors import InvalidInput, InvalidMessage
from millgate.message import Group
from millgate.rules import (
    check,
    check_group,
    check_name,
    check_texts,
    check_topic,
    check_ttl,
    check_whole,
)
from support.builders import a_message


def test_a_good_message_is_good() -> None:
    check(a_message(key="k", unique="u", delay=0.0, expires_at=1e9, priority=9))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"id": ""}, "task id ''"),
        ({"id": "a b"}, "task id 'a b'"),
        ({"id": "a\n"}, "task id"),
        ({"topic": "no such"}, "topic 'no such'"),
        ({"topic": "t\n"}, "topic"),
        ({"priority": 10}, "priority 10"),
        ({"priority": -1}, "priority -1"),
        ({"key": ""}, "key must have 1 to 256 bytes"),
        ({"key": "é" * 129}, "key must have 1 to 256 bytes"),
        ({"unique": "\ud800"}, "unique"),
        ({"unique": "a\x00b"}, "NUL and lone surrogates"),
        ({"delay": float("nan")}, "delay is nan"),
        ({"at": float("inf")}, "at is inf"),
        ({"result_ttl": -float("inf")}, "result_ttl"),
        ({"delay": 1.0, "at": 1.0}, "exclude each other"),
    ],
)
def test_what_no_broker_stores_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        check(a_message(**fields))
    assert complaint in str(refused.value)


def test_a_later_step_is_held_to_the_same() -> None:
    check_whole(a_message(chain=(a_message(),)))
    with pytest.raises(InvalidMessage, match="priority 10"):
        check_whole(a_message(chain=(a_message(), a_message(priority=10))))


def test_a_members_place_is_among_the_messages_or_their_later_steps() -> None:
    last = a_message()
    messages = [a_message(), a_message(chain=(last,))]
    check_group(Group("g", (messages[0].id, last.id), a_message()), messages)
    check_group(Group("g", (), a_message()), [])
    with pytest.raises(InvalidMessage, match="member 'stranger' is not among"):
        check_group(Group("g", (last.id, "stranger"), a_message()), messages)
    with pytest.raises(InvalidMessage, match="topic 'no good'"):
        check_group(Group("g", (), a_message(topic="no good")), [])


def test_a_name_may_have_a_kilobyte() -> None:
    check_name("a lock's name", "é" * 512)
    with pytest.raises(InvalidInput, match="a lock's name has 1025 bytes; use at most 1024"):
        check_name("a lock's name", "é" * 512 + "x")
    with pytest.raises(InvalidInput, match="NUL"):
        check_name("a lock's name", "\x00")


def test_texts_that_not_every_store_can_hold_are_refused() -> None:
    check_texts(None, "", "plain", "日本語 🙂")
    for text in ("a\x00b", "é\udfff"):
        with pytest.raises(InvalidInput, match="cannot be stored"):
            check_texts("plain", text)


def test_a_topic_is_called_as_one() -> None:
    check_topic("a.b:c-d_1")
    with pytest.raises(InvalidInput, match=r"topic '\.b'"):
        check_topic(".b")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_a_time_that_nothing_lasts_is_refused(seconds: float) -> None:
    check_ttl(60.0)
    check_ttl(-1.0)
    with pytest.raises(InvalidInput, match="give finite seconds"):
        check_ttl(seconds)
