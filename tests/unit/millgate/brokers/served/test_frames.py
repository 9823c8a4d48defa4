"""Frames: cut as they were put together, and bounded before anything is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.brokers.served.frames import FrameTooLarge, Splitter, frame, pack, unpack
from millgate.errors import InvalidInput, NotDecodable

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@given(PLAIN)
def test_a_plain_value_comes_back_as_it_was(value: Any) -> None:
    assert unpack(pack(value)) == value


def test_lone_surrogates_come_back_too() -> None:
    assert unpack(pack(["\ud800", "é"])) == ["\ud800", "é"]


@given(st.lists(st.binary(max_size=50), max_size=8), st.integers(1, 20))
def test_however_a_stream_is_cut_the_payloads_are_the_same(
    payloads: list[bytes], step: int
) -> None:
    stream = b"".join(map(frame, payloads))
    splitter, found = Splitter(100), []
    for at in range(0, len(stream), step):
        splitter.feed(stream[at : at + step])
        while (payload := splitter.next()) is not None:
            found.append(payload)
    assert found == payloads
    assert not splitter.started


def test_a_length_over_the_bound_is_refused_at_the_fourth_byte() -> None:
    splitter = Splitter(100)
    splitter.feed(frame(b"x" * 101)[:4])
    with pytest.raises(FrameTooLarge, match="101 bytes; at most 100"):
        splitter.next()


@pytest.mark.parametrize("value", [2**70, object(), {1: [set()]}])
def test_what_cannot_be_packed_is_the_callers_mistake(value: object) -> None:
    with pytest.raises(InvalidInput):
        pack([value])


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91", b"\x01\x01", b"\x91" * 5000])
def test_what_is_no_msgpack_is_told_apart(data: bytes) -> None:
    with pytest.raises(NotDecodable):
        unpack(data)
