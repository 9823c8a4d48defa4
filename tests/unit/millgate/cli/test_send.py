"""Sending by name: what arrives at the broker, and what --wait answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from millgate.brokers.base import State, TaskState
from millgate.brokers.memory import MemoryBroker
from millgate.codec import decode_call
from millgate.outcome import Failure, Reason
from millgate.settlement import Ack, Bury

from .conftest import Shell


def test_a_task_is_queued_under_its_name_with_its_arguments(
    shell: Shell, sent: Callable[..., str]
) -> None:
    name = sent("--args", '[1, "two"]', "--kwargs", '{"three": 3}', "--topic", "mail", "--key", "k")
    (found,) = shell.broker.peek("mail", State.WAITING)
    assert found.id == name
    assert found.message is not None
    assert found.message.task == "work"
    assert found.message.key == "k"
    args, kwargs = decode_call(found.message.body)
    assert (list(args), dict(kwargs)) == ([1, "two"], {"three": 3})


def test_an_id_of_ones_own_is_queued_once(shell: Shell, sent: Callable[..., str]) -> None:
    sent("--id", "order-7")
    assert shell.json("send", "work", "--id", "order-7") == [{"id": "order-7", "duplicate": True}]
    assert len(shell.broker.peek("default", State.WAITING)) == 1


def test_a_delay_keeps_it_back(shell: Shell, sent: Callable[..., str]) -> None:
    name = sent("--delay", "1h")
    (found,) = shell.broker.peek("default", State.DELAYED)
    assert found.id == name
    assert found.due_in is not None
    assert 3500 < found.due_in <= 3600


def test_a_format_that_cannot_be_printed_is_refused_before_anything_is_sent(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert shell("send", "work", "-o", "yaml") == 2
    assert "pip install pyyaml" in shell.err
    assert shell.broker.peek("default", State.WAITING) == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--args", '{"a": 1}'), "JSON array"),
        (("--kwargs", "[1]"), "JSON object"),
        (("--delay", "soon"), "is not a duration"),
        (("--at", "2026-12-24T18:00:00"), "no time zone"),
        (("--at", "tomorrow"), "write it like"),
        (("--priority", "11"), "use 0 to 9"),
        (("--delay", "1s", "--at", "2026-12-24T18:00:00Z"), "exclude each other"),
        (("--topic", "no spaces"), "letters, digits"),
        (("--id", ""), "task id ''"),
        (("--args", "[1]", "--lines", "-"), "leave --args out"),
    ],
)
def test_what_cannot_be_sent_says_how_to_write_it(
    shell: Shell, arguments: tuple[str, ...], hint: str
) -> None:
    assert shell("send", "work", *arguments) == 2
    assert hint in shell.err
    assert shell.broker.peek("default", State.WAITING) == []


@pytest.mark.parametrize("name", ["", "shop tasks", "1st", "x" * 101])
def test_a_name_that_no_task_can_have_is_refused(shell: Shell, name: str) -> None:
    assert shell("send", name) == 2
    assert f"{name!r} names no task" in shell.err
    assert shell.broker.stats().topics == {}


def test_lines_are_sent_as_one_task_each(shell: Shell, tmp_path: Path) -> None:
    lines = tmp_path / "calls"
    lines.write_text("[1]\n\n[2]\n[3]\n")
    receipts = shell.json("send", "work", "--lines", str(lines))
    assert len({receipt["id"] for receipt in receipts}) == 3
    bodies = [
        item.message.body for item in shell.broker.peek("default", State.WAITING) if item.message
    ]
    assert [list(decode_call(body)[0]) for body in bodies] == [[1], [2], [3]]


def test_one_bad_line_sends_none_and_is_named(shell: Shell, tmp_path: Path) -> None:
    lines = tmp_path / "calls"
    lines.write_text("[1]\n{}\n")
    assert shell("send", "work", "--lines", str(lines)) == 2
    assert "line 2" in shell.err
    assert shell.broker.peek("default", State.WAITING) == []


def test_lines_and_one_id_exclude_each_other(shell: Shell, tmp_path: Path) -> None:
    lines = tmp_path / "calls"
    lines.write_text("[1]\n")
    assert shell("send", "work", "--id", "x", "--lines", str(lines)) == 2


def test_waiting_prints_the_result_and_succeeds(shell: Shell, sent: Callable[..., str]) -> None:
    name = sent("--id", "a")
    (claim,) = shell.claim()
    shell.broker.settle([Ack(claim.ref, b'{"sum":3}')])
    (state,) = shell.json("send", "work", "--id", name, "--wait", "5s")
    assert shell.code == 0
    assert state["state"] == "succeeded"
    assert state["result"] == {"sum": 3}


def test_waiting_for_a_failure_fails_and_says_why(shell: Shell, sent: Callable[..., str]) -> None:
    sent("--id", "a")
    (claim,) = shell.claim()
    failure = Failure("builtins.ValueError", "no such file", "Traceback: line 1")
    shell.broker.settle([Bury(claim.ref, Reason.FAILED, failure)])
    assert shell("show", "a", "--wait") == 1
    assert "ValueError: no such file" in shell.out
    assert "Traceback: line 1" in shell.out


def test_waiting_too_short_is_a_no_and_shows_how_it_stands(shell: Shell) -> None:
    assert shell("send", "work", "--id", "a", "--wait", "0s") == 1
    assert "waiting" in shell.out
    assert shell.err == ("millgate: 1 of 1 had not ended after 0ms; to learn why: millgate why a\n")
    assert shell("show", "a", "--wait", "0s") == 1
    assert "millgate why a" in shell.err


def test_who_interrupts_the_wait_learns_what_was_queued(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: MemoryBroker, ids: Sequence[str], timeout: float) -> list[TaskState]:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryBroker, "wait", interrupted)
    assert shell("send", "work", "--id", "a", "--wait") == 130
    assert shell.err == "millgate: queued all the same; to wait on: millgate show a --wait\n"
    assert shell.broker.states(["a"])[0].state is State.WAITING


def test_show_knows_when_it_knows_nothing(shell: Shell) -> None:
    assert shell("show", "never-sent") == 1
    assert "unknown" in shell.out


def test_lines_may_come_from_standard_input_and_a_missing_file_is_named(shell: Shell) -> None:
    shell.typed = "[1]\n[2]\n"
    assert len(shell.json("send", "work", "--lines", "-")) == 2
    assert shell("send", "work", "--lines", "/no/such/file") == 2
    assert "/no/such/file" in shell.err


def test_a_line_ends_where_json_says_so(shell: Shell) -> None:
    shell.typed = '["a\u2028b\x85c"]\r\n\n["d"]\n'
    assert len(shell.json("send", "work", "--lines", "-")) == 2
    calls = [
        decode_call(item.message.body)[0]
        for item in shell.broker.peek("default", State.WAITING)
        if item.message
    ]
    assert [list(call) for call in calls] == [["a\u2028b\x85c"], ["d"]]


def test_arguments_are_utf_8_whatever_the_locale(shell: Shell, sent: Callable[..., str]) -> None:
    sent("--args", '["Zo\udcc3\udcab"]')  # as a locale of ASCII hands "Zoë" over
    (found,) = shell.broker.peek("default", State.WAITING)
    assert found.message is not None
    assert list(decode_call(found.message.body)[0]) == ["Zo\xeb"]


def test_what_was_queued_before_an_error_is_told(shell: Shell) -> None:
    lines = [f"[{number}]" for number in range(1_100)]
    lines[1_050] = f'["{"x" * 300_000}"]'
    shell.typed = "\n".join(lines)
    assert shell("send", "work", "--lines", "-", "-o", "json") == 2
    told = [item["id"] for item in json.loads(shell.out)]
    assert len(told) == 1_000
    assert set(told) == {item.id for item in shell.broker.peek("default", State.WAITING, 2_000)}
    remark, error = shell.err.splitlines()
    assert remark.startswith("millgate: the first 1000 of 1100 tasks are queued")
    assert error.startswith("millgate: error: ")
    assert "300026 bytes" in error
    shell.typed = "\n".join(lines[1_000:])
    assert shell("send", "work", "--lines", "-", "-o", "json") == 2
    assert shell.out == ""
