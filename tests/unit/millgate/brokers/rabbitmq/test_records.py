"""Messages of streams: what is written is read back, and what an older owner or a stranger wrote is void."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.brokers.rabbitmq import records
from millgate.brokers.rabbitmq.pieces import LARGEST
from millgate.brokers.rabbitmq.records import FORMAT, Entry, Head, Kind, Reader, head, unpack
from millgate.errors import NotDecodable, SchemaTooNew


def written(data: bytes, term: int, number: int) -> list[Entry]:
    """The entries of some data, over the wire and back."""
    found = [unpack(entry.pack()) for entry in records.parts(data, term, number)]
    return [entry for entry in found if entry is not None]


def read(reader: Reader, entries: list[Entry]) -> list[bytes]:
    """All that these entries complete."""
    return [data for data in map(reader.take, entries) if data is not None]


@given(st.sampled_from(Kind), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.binary())
def test_an_entry_comes_back_as_it_was(kind: Kind, term: int, number: int, data: bytes) -> None:
    entry = Entry(kind, term, number, data)
    assert unpack(entry.pack()) == entry


@given(st.binary(max_size=60))
def test_what_others_write_is_nothing_or_an_entry_and_never_an_error(body: bytes) -> None:
    assert unpack(b"MG\x01\x03" + body) is None
    if body[:2] != b"MG":
        assert unpack(body) is None


def test_what_a_newer_program_writes_is_refused_by_its_format() -> None:
    body = bytearray(Entry(Kind.LAST, 1, 1).pack())
    body[2] = FORMAT + 1
    with pytest.raises(SchemaTooNew, match=f"format {FORMAT + 1}"):
        unpack(bytes(body))


@pytest.mark.parametrize("size", [0, 1, LARGEST, LARGEST + 1])
def test_data_of_any_size_comes_back_whole(size: int) -> None:
    data = bytes(size)
    entries = written(data, 3, 8)
    assert [entry.number for entry in entries] == list(range(8, 8 + len(entries)))
    reader = Reader()
    assert read(reader, [Entry(Kind.MARK, 3, 7), *entries]) == [data]
    assert reader.number == entries[-1].number


def test_what_an_older_owner_writes_after_the_mark_of_the_next_is_void() -> None:
    log = [Entry(Kind.MARK, 1, 1), *written(b"a", 1, 2), Entry(Kind.MARK, 2, 1)]
    log += [*written(b"late", 1, 3), *written(b"b", 2, 2), Entry(Kind.MARK, 1, 9)]
    log += [*written(b"later", 1, 10), *written(b"c", 2, 3)]
    assert read(Reader(), log) == [b"a", b"b", b"c"]


def test_a_part_without_its_end_is_void_once_another_term_begins() -> None:
    begun = Entry(Kind.MORE, 1, 2, b"half")
    log = [Entry(Kind.MARK, 1, 1), begun, Entry(Kind.MARK, 2, 1), *written(b"b", 2, 2)]
    assert read(Reader(), log) == [b"b"]


def test_what_was_read_before_is_not_read_again() -> None:
    log = [Entry(Kind.MARK, 1, 1), *written(b"a", 1, 2), *written(b"b", 1, 3)]
    assert read(Reader(1, 2), log) == [b"b"]


def test_a_mark_of_nobodys_begins_nothing() -> None:
    log = [Entry(Kind.MARK, 1, 1), Entry(Kind.MARK, 0, 77), *written(b"a", 1, 2)]
    assert read(Reader(), log) == [b"a"]


def test_a_log_without_its_beginning_is_refused() -> None:
    with pytest.raises(NotDecodable, match="begins in the middle"):
        read(Reader(), written(b"a", 1, 2))


def test_a_head_comes_back_as_it_was() -> None:
    for one in (Head(), Head(7, "s", ("j1", "j2"), 4)):
        assert head(one.pack()) == one


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x01", b"\x93\x01\x02\x03"])
def test_what_is_no_head_is_refused(data: bytes) -> None:
    with pytest.raises(NotDecodable):
        head(data)
