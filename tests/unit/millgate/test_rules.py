"""What no broker stores is refused before anything is written, with words that say how to mend it."""

from __future__ import annotations

from typing import Any

import pytest

from millgate.errors import InvalidMessage
from millgate.rules import check
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
