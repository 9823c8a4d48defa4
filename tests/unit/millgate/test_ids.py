"""Ids sort by time and are like no other."""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.ids import TASK_ID, new_id, new_incarnation


def test_an_id_is_a_uuid_of_version_7() -> None:
    parsed = uuid.UUID(new_id(1_800_000_000.123))
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == 1_800_000_000_123


@given(st.floats(0, 2**40), st.floats(0.001, 1e6))
def test_a_later_id_sorts_later(now: float, later: float) -> None:
    assert new_id(now) < new_id(now + later + 0.001)


def test_ids_differ() -> None:
    assert len({new_id(1.0) for _ in range(10_000)}) == 10_000
    assert len({new_incarnation() for _ in range(1000)}) == 1000


@pytest.mark.parametrize("fork", [os.fork, ctypes.PyDLL(None).fork], ids=["fork", "untold"])
def test_a_forked_child_draws_ids_of_its_own(fork: Callable[[], int]) -> None:
    new_id(1.0)  # some are drawn ahead by now
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        os.write(writer, "".join(new_id(1.0) for _ in range(20)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    text = os.read(reader, 10_000).decode()
    os.close(reader)
    os.close(writer)
    theirs = {text[at : at + 32] for at in range(0, len(text), 32)}
    assert len(theirs) == 20
    assert not theirs & {new_id(1.0) for _ in range(200)}


def test_a_new_id_may_be_sent() -> None:
    assert TASK_ID.match(new_id(0.0))


@pytest.mark.parametrize("text", ["", "-a", "a b", "ü", "a" * 129, "a\n", ".a", "a\x00"])
def test_what_is_no_id(text: str) -> None:
    assert not TASK_ID.fullmatch(text)
