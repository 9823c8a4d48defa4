"""The worker's log as text and as JSON: what is unknown is said to be."""

from __future__ import annotations

import json
import os

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
