"""The page on payloads shows what is written, byte for byte."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from millgate import MemberFailed, codec

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "payloads.md"
ROW = re.compile(r"^\| `([^`]+)`[^|]* \| `([^`]+)` \|$", re.MULTILINE)
NAMES: dict[str, Any] = {
    "Decimal": Decimal,
    "MemberFailed": MemberFailed,
    "UTC": UTC,
    "UUID": UUID,
    "ZoneInfo": ZoneInfo,
    "date": date,
    "datetime": datetime,
    "time": time,
    "timedelta": timedelta,
}
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("expression", "written"), ROWS, ids=[row[0] for row in ROWS])
def test_a_value_is_written_as_the_page_shows(expression: str, written: str) -> None:
    value = eval(expression, dict(NAMES))
    assert codec.encode(value).decode() == written
    assert codec.decode(written.encode()) == value


def test_the_page_shows_every_tag() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert {tag for tag in codec._READERS if f'"$mg:{tag}"' not in page} == set()
    assert len(ROWS) >= 15
