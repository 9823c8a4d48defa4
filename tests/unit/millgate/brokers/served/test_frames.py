"""Plain values as bytes and back; what is neither is told apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.brokers.served.frames import pack, unpack
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


@pytest.mark.parametrize("value", [2**70, object(), {1: [set()]}])
def test_what_cannot_be_packed_is_the_callers_mistake(value: object) -> None:
    with pytest.raises(InvalidInput):
        pack([value])


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91", b"\x01\x01", b"\x91" * 5000])
def test_what_is_no_msgpack_is_told_apart(data: bytes) -> None:
    with pytest.raises(NotDecodable):
        unpack(data)
