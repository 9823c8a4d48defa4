"""The page that child and supervisor share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millgate.runtime.table import BUFFERED, SHELF, Table, rows_for


@pytest.fixture
def table() -> Iterator[Table]:
    made = Table.create(slots=4)
    yield made
    made.close()


def test_both_sides_see_the_same_page() -> None:
    ours = Table.create(slots=1)
    theirs = Table(ours.descriptor, slots=1)
    assert theirs.take(1, now=12.5)
    assert (ours.started, ours.started_at(1)) == (1, 12.5)
    ours.expire(1)
    assert theirs.soft_expired(1)
    assert not theirs.cancelled(1)


def test_what_was_recalled_before_it_started_is_left_alone(table: Table) -> None:
    assert table.take(1, 0.0)
    table.recall(2, 4)
    assert [table.take(seq, 0.0) for seq in (2, 3, 4, 5)] == [False, False, False, True]


def test_a_recall_that_comes_too_late_changes_nothing_for_what_runs(table: Table) -> None:
    assert table.take(3, 0.0)
    table.recall(3, 3)
    assert table.started == 3  # the supervisor sees that it is too late


def test_a_second_recall_does_not_revive_what_the_first_one_took_back(table: Table) -> None:
    table.take(1, 0.0)
    table.recall(2, 5)
    table.recall(6, 8)
    assert [table.take(seq, 0.0) for seq in range(2, 10)] == [False] * 7 + [True]


def test_marks_are_for_one_number_only(table: Table) -> None:
    table.cancel(7)
    table.expire(8)
    assert [table.cancelled(seq) for seq in (6, 7, 8)] == [False, True, False]
    assert [table.soft_expired(seq) for seq in (7, 8, 9)] == [False, True, False]


@pytest.mark.parametrize("slots", [1, 2, 31, 32, 500])
def test_there_is_a_row_for_each_number_that_can_be_in_a_child(slots: int) -> None:
    assert rows_for(slots) >= slots + BUFFERED
    table = Table.create(slots)
    first = 10**6
    for seq in range(first, first + slots + BUFFERED):
        table.take(seq, float(seq))
    for seq in range(first, first + slots + BUFFERED):
        assert table.started_at(seq) == seq
    table.close()


def test_what_a_child_keeps_is_seen_until_it_was_sent(table: Table) -> None:
    supervisor = Table(table.descriptor, slots=4)
    assert table.keep(b"one")
    assert table.keep(b"two")
    assert (bytes(table.kept()), supervisor.unsent()) == (b"onetwo", (0, b"onetwo"))
    table.clear()
    assert supervisor.unsent() == (1, b"")
    assert table.keep(b"three")
    assert supervisor.unsent() == (1, b"three")


def test_a_child_keeps_no_more_than_there_is_room_for(table: Table) -> None:
    assert not table.keep(b"x" * (SHELF + 1))
    assert table.keep(b"x" * SHELF)
    assert not table.keep(b"y")
    assert bytes(table.kept()) == b"x" * SHELF


def test_rows_and_what_is_kept_do_not_touch() -> None:
    table = Table.create(slots=500)
    assert table.keep(b"\xff" * SHELF)
    for seq in range(1, rows_for(500) + 1):
        assert table.take(seq, now=1.0)
        table.cancel(seq)
        table.expire(seq)
    assert bytes(table.kept()) == b"\xff" * SHELF
    table.close()


def test_whoever_looks_at_a_page_that_was_let_go_finds_that_nothing_runs() -> None:
    table = Table.create(slots=4)
    assert table.take(3, now=1.0)
    look = table.started_at  # another thread may just be about to
    table.close()
    assert (table.started, look(3)) == (0, 0.0)
    assert table.unsent() == (0, b"")
