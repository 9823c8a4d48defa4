"""Stored rows, as the scripts write them, are read back; what is not ours is said so."""

from __future__ import annotations

import struct

import pytest

from millgate.brokers.redis import rows
from millgate.errors import NotDecodable
from support.builders import a_message

SPAN = 1 << 49


def plain(record: bytes, priority: int = 5, seq: int = 7) -> bytes:
    return struct.pack(">BIdd", 0, 3, (9 - priority) * SPAN + seq, 1000.0) + record


def full(record: bytes, ttl: float, key: bytes, unique: bytes, group: bytes) -> bytes:
    head = struct.pack(">BIdd", 1, 3, 4 * SPAN + 1, 1000.0)
    sizes = struct.pack(">ddHHH", -1.0, ttl, len(key), len(unique), len(group))
    return head + sizes + key + unique + group + record


def test_a_plain_row_has_its_priority_and_record() -> None:
    for priority in range(10):
        row = rows.read(plain(b"record", priority))
        assert (row.priority, row.record, row.enqueued) == (priority, b"record", 1000.0)
        assert (row.key, row.unique, row.result_ttl, row.group) == (None, None, None, None)


def test_a_full_row_has_everything() -> None:
    row = rows.read(full(b"record", 12.5, "é".encode(), b"u", b"g"))
    assert (row.key, row.unique, row.result_ttl, row.group) == ("é", "u", 12.5, "g")
    assert row.record == b"record"
    assert rows.read(full(b"r", -1.0, b"", b"u", b"")).key is None


def test_a_row_is_the_message_that_was_sent() -> None:
    sent = a_message(priority=5, headers={"a": "b"})
    assert rows.read(plain(sent.record())).message(sent.id, sent.topic) == sent
    assert rows.read(plain(b"junk")).message("x", "t") is None


@pytest.mark.parametrize("data", [b"", b"short", b"\x01" + bytes(25)])
def test_what_is_too_short_is_not_a_row(data: bytes) -> None:
    with pytest.raises(NotDecodable):
        rows.read(data)


def test_counts_are_zero_for_a_row_that_never_came_back() -> None:
    assert rows.counts(b"") == (0, 0, 0, b"")
    assert rows.counts(struct.pack(">III", 1, 2, 3) + b"said") == (1, 2, 3, b"said")


@pytest.mark.parametrize(
    "data",
    [
        plain(b"record", 9),
        full(b"record", -1.0, b"", b"", b""),
        full(b"record", 0.0, b"", b"", b""),
        full(b"", 12.5, "é".encode(), b"u", b"group"),
        full(b"record", 3.0, b"", b"unique", b"g"),
    ],
)
def test_the_parts_of_a_claim_are_those_of_the_row(data: bytes) -> None:
    row = rows.read(data)
    parts = (row.rank, row.enqueued, row.result_ttl, row.key, row.group, row.record)
    assert rows.parts(data) == parts
