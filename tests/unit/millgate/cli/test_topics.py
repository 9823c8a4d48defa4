"""Names of topics that are misspelt or impossible: said at once, by every command that takes one."""

from __future__ import annotations

import pytest

from millgate.cli.topics import unknown
from millgate.message import Message

from .conftest import Shell

NAMED = [
    ("pause",),
    ("resume",),
    ("purge", "--yes"),
    ("tasks",),
    ("dead", "list", "--topic"),
    ("dead", "replay", "--topic"),
    ("dead", "purge", "--yes", "--topic"),
]


@pytest.mark.parametrize("command", NAMED, ids=" ".join)
def test_a_topic_that_nobody_knows_is_remarked_upon(shell: Shell, command: tuple[str, ...]) -> None:
    shell.broker.publish([Message("m", "invoices", "work", b"[[],{}]")])
    assert shell(*command, "invocies") == 0
    assert (
        shell.err == "millgate: no topic invocies is known in this queue; did you mean invoices?\n"
    )
    shell(*command, "invoices")
    assert shell.err == ""


@pytest.mark.parametrize("command", [*NAMED, ("send", "work", "--topic")], ids=" ".join)
def test_a_name_that_no_topic_can_have_is_refused(shell: Shell, command: tuple[str, ...]) -> None:
    assert shell(*command, "in voices") == 2
    assert "'in voices' names no topic" in shell.err
    assert dict(shell.broker.stats().topics) == {}


def test_why_says_that_it_knows_nothing(shell: Shell) -> None:
    assert shell("why", "nothing") == 1
    assert shell.err == "millgate: error: no topic or task nothing is known in this queue\n"
    assert shell.out == ""
    assert shell.json("why", "nothing") == {"name": "nothing", "reasons": []}


def test_what_there_is_is_named_in_bounds() -> None:
    many = [f"t{number}" for number in range(20)]
    assert unknown("topic", "x", ["a", "b"]).endswith("; there is a, b")
    assert unknown("topic", "zzz", many).endswith("t15 …")
