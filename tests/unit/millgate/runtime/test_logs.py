"""The worker's log as text and as JSON: what is unknown is said to be."""

from __future__ import annotations

import json
import os
import threading

import pytest

from millgate.clock import SystemClock
from millgate.runtime.logs import Journal


@pytest.mark.parametrize("json_lines", [True, False])
def test_what_is_unknown_is_a_question_mark_or_null(json_lines: bool) -> None:
    reading, writing = os.pipe()
    journal = Journal(SystemClock(), json_lines=json_lines, level="info", descriptor=writing)
    journal.say("info", "child ended", rss=None, tasks=0)
    journal.close()
    os.close(writing)
    with os.fdopen(reading) as lines:
        text = lines.read()
    if json_lines:
        assert json.loads(text)["rss"] is None
    else:
        assert text.rstrip().endswith("info    child ended rss=? tasks=0")


def test_a_traceback_stands_below_its_line_for_people() -> None:
    reading, writing = os.pipe()
    journal = Journal(SystemClock(), json_lines=False, level="info", descriptor=writing)
    journal.say("error", "task buried", traceback="Traceback:\n  File x\nKeyError: 1\n", tasks=1)
    journal.close()
    os.close(writing)
    with os.fdopen(reading) as lines:
        first, *below = lines.read().splitlines()
    assert first.endswith("error   task buried tasks=1")
    assert below == ["  Traceback:", "    File x", "  KeyError: 1"]


def test_lines_that_nobody_reads_are_bounded_in_bytes_and_counted() -> None:
    reading, writing = os.pipe()
    journal = Journal(SystemClock(), json_lines=True, level="info", descriptor=writing)
    for number in range(2000):
        journal.say("info", "long", number=number, text="x" * 19_000)
    waiting = sum(map(len, journal._lines))
    assert waiting <= 4 * 2**20
    with os.fdopen(reading) as lines:
        closer = threading.Thread(target=lambda: (journal.close(20), os.close(writing)))
        closer.start()
        found = [json.loads(line) for line in lines]
        closer.join()
    left_out = sum(line["count"] for line in found if line["event"] == "log lines left out")
    assert left_out + sum(line["event"] == "long" for line in found) == 2000


def test_a_stream_that_does_not_block_loses_no_line() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    journal = Journal(SystemClock(), json_lines=True, level="info", descriptor=writing)
    for number in range(100):
        journal.say("info", "long", number=number, text="x" * 10_000)
    with os.fdopen(reading) as lines:
        closer = threading.Thread(target=lambda: (journal.close(20), os.close(writing)))
        closer.start()
        assert [json.loads(line)["number"] for line in lines] == list(range(100))
        closer.join()
