"""Output: the beginning at once, the end at the end, the middle counted."""

from __future__ import annotations

from millgate.runtime.capture import KEPT, Capture


def captured(*parts: bytes, end: bool = True) -> list[str]:
    lines: list[str] = []
    capture = Capture(lines.append)
    for part in parts:
        capture.feed(part)
    if end:
        capture.end()
    return lines


def test_lines_come_as_they_are_complete() -> None:
    assert captured(b"one\ntw", b"o\nthr", end=False) == ["one", "two"]


def test_the_last_line_needs_no_newline() -> None:
    assert captured(b"one\r\ntwo") == ["one", "two"]


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    assert captured(b"\xff\xfe\x00ok\n") == ["\ufffd\ufffd\x00ok"]


def test_a_flood_keeps_both_ends_and_counts_the_middle() -> None:
    flood = b"".join(b"line %07d\n" % number for number in range(100_000))
    lines = captured(*(flood[start : start + 4096] for start in range(0, len(flood), 4096)))
    assert lines[0] == "line 0000000"
    assert lines[-1] == "line 0099999"
    assert f"[{len(flood) - 2 * KEPT} bytes left out]" in lines
    assert sum(map(len, lines)) < 2 * KEPT + 100


def test_one_huge_write_is_bounded_as_well() -> None:
    lines = captured(b"x" * 10_000_000)
    assert sum(map(len, lines)) < 2 * KEPT + 100
    assert any("left out" in line for line in lines)


def test_the_next_task_begins_anew() -> None:
    lines: list[str] = []
    capture = Capture(lines.append)
    capture.feed(b"y" * (3 * KEPT))
    capture.end()
    lines.clear()
    capture.feed(b"fresh\n")
    capture.end()
    assert lines == ["fresh"]
