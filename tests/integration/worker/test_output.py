"""What tasks print ends in the worker's log, bounded, and never holds a task or the worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millgate.retry import RetryPolicy
from support.bench import every_broker_and_memory
from support.wait import eventually


def test_what_a_task_prints_is_logged_with_its_id(bench: Any) -> None:
    sent = bench.send("say", "hello, log")
    worker = bench.ready()
    bench.end_of(sent)
    eventually(lambda: len(worker.events("output")) == 2)
    lines = worker.events("output")
    assert [line["text"] for line in lines] == ["hello, log", "to stderr hello, log"]
    assert {(line["id"], line["task"], line["topic"]) for line in lines} == {
        (sent, "say", "default")
    }


def test_what_a_tasks_logger_says_is_logged_with_its_id(bench: Any) -> None:
    sent = bench.send("tell", "somebody")
    worker = bench.ready()
    bench.end_of(sent)
    eventually(lambda: len(worker.events("output")) == 2)
    lines = worker.events("output")
    assert [line["text"] for line in lines] == ["INFO told somebody", "ERROR oh somebody"]
    assert {line["id"] for line in lines} == {sent}


def test_short_tasks_keep_their_own_words(bench: Any) -> None:
    sent = bench.send_many("say", [(f"low {number}",) for number in range(60)])
    worker = bench.ready(children=1)
    bench.ends_of(sent)
    eventually(lambda: len(worker.events("output")) == 120)
    said = {(line["id"], line["text"]) for line in worker.events("output")}
    assert said == {
        (name, f"{before}low {number}")
        for number, name in enumerate(sent)
        for before in ("", "to stderr ")
    }


@every_broker_and_memory
def test_sixty_four_megabytes_are_cut_in_the_middle_and_hold_nobody(bench: Any) -> None:
    flood = bench.send("flood", 64)
    worker = bench.ready(children=2)
    quick = bench.send_many("add", [(number, 1) for number in range(20)])
    bench.ends_of(quick, timeout=10)
    assert bench.result(flood, timeout=40) == "done"
    texts = eventually(
        lambda: (
            (found := [line["text"] for line in worker.events("output")])
            and found[-1] == "last line"
            and found
        )
    )
    assert texts[0] == "first line"
    assert any("bytes left out" in text for text in texts)
    assert sum(map(len, texts)) < 100_000


def test_output_without_a_newline_and_with_odd_bytes_is_shown_when_the_task_ends(
    bench: Any,
) -> None:
    sent = bench.send("say", "ünïcödé \udc80".encode("utf-8", "replace").decode() + "\x00")
    worker = bench.ready()
    bench.end_of(sent)
    eventually(lambda: len(worker.events("output")) == 2)


def test_a_childs_last_words_are_logged(bench: Any) -> None:
    bench.configure()
    bench.send("segfault")
    worker = bench.ready(children=1)
    eventually(
        lambda: any("Segmentation fault" in line["text"] for line in worker.events("output"))
    )


@pytest.mark.parametrize("slots", [1, 4])
def test_what_a_run_has_left_behind_prints_under_its_name(
    bench: Any, tmp_path: Path, slots: int
) -> None:
    told = tmp_path / "now"
    late = bench.send("say_when_it_is_over", "late", str(told))
    worker = bench.ready(children=1, slots=slots)
    bench.end_of(late)
    under_way = bench.send("wait_async", str(bench.journal), 2.0)
    bench.until_noted("start")
    told.touch()
    eventually(lambda: len(worker.events("output")) == 2)
    assert bench.state(under_way).state == "running"
    assert [(line["id"], line["task"], line["text"]) for line in worker.events("output")] == [
        (late, "say_when_it_is_over", "late"),
        (late, "say_when_it_is_over", "late in a thread"),
    ]


def test_no_password_is_in_the_log_or_in_what_is_told_of_a_failure(bench: Any) -> None:
    bench.configure(retry=RetryPolicy(attempts=1))
    failed = bench.send("fail", "no s3cret-word at amqp://me:pw@host")
    said = bench.send("say", "s3cret-word amqp://me:pw@host")
    worker = bench.ready(children=1, environ={"PGPASSWORD": "s3cret-word"})
    bench.end_of(said)
    failure = bench.end_of(failed, timeout=30).failure
    assert failure.message == "no *** at amqp://me:***@host"
    assert "ValueError: no *** at amqp://me:***@host" in failure.traceback
    eventually(lambda: len(worker.events("output")) == 2)
    log = worker.log_file.read_text(encoding="utf-8")
    assert "s3cret-word" not in log
    assert ":pw@" not in log
    assert worker.events("output")[0]["text"] == "*** amqp://me:***@host"
