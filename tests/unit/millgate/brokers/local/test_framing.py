"""Frames in a stream: cut as they were put together, and bounded before anything is allocated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.brokers.local.framing import Splitter, frame
from millgate.brokers.served.frames import FrameTooLarge


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
