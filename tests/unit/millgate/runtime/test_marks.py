"""Output is cut where the child said that another run prints, however it comes in."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from millgate.runtime.marks import Marks

#: What may look like a mark and is none, and what is no text.
pieces = st.sampled_from(
    [
        b"line\n",
        b"\x1e",
        b"\x1emill",
        b"\x1emillgate:",
        b"\x1emillgate:12",
        b"\x1emillgate:x\x1e",
        b"\xff",
        b"7",
    ]
) | st.binary(max_size=6).filter(lambda piece: b"\x1e" not in piece)


def heard(chunks: list[bytes]) -> list[tuple[int, bytes]]:
    """The parts, those of one run that follow each other joined."""
    marks = Marks()
    parts = [part for chunk in chunks for part in marks.cut(chunk)]
    parts.append(marks.rest())
    joined = [(n, b"".join(text for _, text in some)) for n, some in groupby(parts, lambda p: p[0])]
    return [(number, text) for number, text in joined if text]


@given(
    st.lists(st.tuples(st.integers(1, 10**12), st.lists(pieces, min_size=1).map(b"".join))),
    st.data(),
)
def test_each_part_is_its_runs_however_it_was_read(
    said: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(b"\x1emillgate:%d\x1e%b\x1emillgate:0\x1e" % part for part in said)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    ends = zip([0, *cuts], [*cuts, len(stream)], strict=True)
    assert heard([stream[start:end] for start, end in ends]) == heard([stream])


def test_what_lies_between_marks() -> None:
    stream = b"a\x1emillgate:5\x1eb\nc\x1emillgate:0\x1ed\x1emillgate:6\x1ee\x1emill"
    assert heard([stream]) == [(0, b"a"), (5, b"b\nc"), (0, b"d"), (6, b"e\x1emill")]


def test_what_is_no_mark_is_not_held_back() -> None:
    marks = Marks()
    assert list(marks.cut(b"one\x1etwo\n")) == [(0, b"one\x1etwo\n")]
    assert list(marks.cut(b"three\x1emillgate:99999999999999999999999")) == [
        (0, b"three\x1emillgate:99999999999999999999999")
    ]
