"""Columns are PostgreSQL's binary arrays, byte for byte what the driver itself would send."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.adapt import AdaptersMap, PyFormat, Transformer

from millgate.brokers.postgres import arrays
from millgate.brokers.postgres.arrays import (
    Bigints,
    Blobs,
    Column,
    Floats,
    Ints,
    Smallints,
    Texts,
    column,
)


@pytest.mark.parametrize(
    ("made", "oid", "values"),
    [
        (Smallints([1, -2, None]), 1005, [1, -2, None]),
        (Ints([70_000, None, -1]), 1007, [70_000, None, -1]),
        (Bigints([1 << 62, 0, None]), 1016, [1 << 62, 0, None]),
        (Floats([0.5, None, -1e9]), 1022, [0.5, None, -1e9]),
        (Texts(["ü", "", None, "a,b"]), 1009, ["ü", "", None, "a,b"]),
        (Blobs([b"\x00\xff", b"", None]), 1001, [b"\x00\xff", b"", None]),
        (Texts([]), 1009, []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_column_comes_back_as_it_was_sent(made: Column, oid: int, values: list[Any]) -> None:
    adapters = AdaptersMap(psycopg.adapters)
    arrays.register(adapters)
    dumper = adapters.get_dumper(type(made), PyFormat.BINARY)(type(made))
    loader = Transformer().get_loader(oid, psycopg.pq.Format.BINARY)
    assert dumper.oid == oid
    data = dumper.dump(made)
    assert data is not None
    assert loader.load(data) == values


def test_a_column_that_nobody_set_is_null() -> None:
    assert column(Texts, [None, None]) is None
    assert column(Texts, []) is None
    some = column(Floats, [None, 0.0])
    assert some is not None
    assert list(some.values) == [None, 0.0]
