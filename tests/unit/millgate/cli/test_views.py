"""status, top, tasks and why: what they show of a queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers.base import State, TaskState
from millgate.cli.console import Console
from millgate.cli.watch import watched
from millgate.cli.why import task_reasons, topic_reasons
from millgate.errors import BrokerUnavailable
from millgate.fleet import Beat, WorkerInfo, WorkerRow, WorkerState
from millgate.limits import Rate
from millgate.outcome import Failure
from millgate.queues import Configuration, Ordering, QueuePolicy, TopicPolicy
from millgate.settlement import Ack, Later
from millgate.stats import Stats, TopicStats

from .conftest import Shell, Stream


def a_row(name: str = "w1", **fields: object) -> WorkerRow:
    values: dict[str, object] = {
        "incarnation": "i",
        "state": WorkerState.ACTIVE,
        "seen": 0.5,
        "leased": 0,
        "info": WorkerInfo(slots=2, topics="*"),
        "beat": Beat(),
    }
    return WorkerRow(name=name, **(values | fields))  # type: ignore[arg-type]


def test_status_shows_topics_and_workers_on_one_screen(
    shell: Shell, sent: Callable[..., str]
) -> None:
    sent("--topic", "mail")
    sent("--topic", "video")
    shell.claim("busy-worker")
    assert shell("status") == 0
    lines = shell.out.splitlines()
    assert "memory" in lines[0]
    assert "1 worker" in lines[0]
    assert any(line.startswith("mail") for line in lines)
    assert any(line.startswith("busy-worker") for line in lines)


def test_status_names_the_queue_it_looks_at(shell: Shell) -> None:
    shell("status")
    assert " · queue millgate · 0 workers" in shell.out


def test_status_as_json_has_the_numbers(shell: Shell, sent: Callable[..., str]) -> None:
    sent("--topic", "mail")
    sent("--topic", "mail")
    shell.claim()
    topic = shell.json("status")["stats"]["topics"]["mail"]
    assert (topic["waiting"], topic["leased"], topic["enqueued"]) == (1, 1, 2)


def test_names_in_json_are_written_alike(shell: Shell, sent: Callable[..., str]) -> None:
    sent("--delay", "1h")
    assert shell.json("status")["stats"]["nextDue"] > 0
    assert shell.json("tasks")[0]["dueIn"] > 0


def test_tasks_are_listed_with_their_call_where_they_lie(
    shell: Shell, sent: Callable[..., str]
) -> None:
    running = sent("--args", "[1]")
    shell.claim("w7")
    waiting = sent("--args", "[2]")
    delayed = sent("--args", "[3]", "--delay", "1m")
    found = {item["id"]: item for item in shell.json("tasks")}
    assert found[running]["state"] == "running"
    assert found[running]["worker"] == "w7"
    assert found[waiting]["task"] == "work"
    assert found[delayed]["dueIn"] > 50
    assert [item["id"] for item in shell.json("tasks", "default", "--state", "waiting")] == [
        waiting
    ]


def test_top_puts_the_busiest_worker_first(shell: Shell) -> None:
    shell.claim("idle")
    assert shell("top", "--once") == 0
    assert shell.out.splitlines()[1].startswith("idle")


def test_watching_repeats_until_ctrl_c_and_survives_an_outage() -> None:
    shown: list[int] = []

    class Clock:
        def sleep(self, seconds: float) -> None:
            if len(shown) == 3:
                raise KeyboardInterrupt

    def show() -> None:
        shown.append(1)
        if len(shown) == 2:
            raise BrokerUnavailable

    err = Stream()
    console = Console(out=Stream(), err=err, environ={}, clock=Clock())  # type: ignore[arg-type]
    assert watched(console, 1.0, show) == 0
    assert len(shown) == 3
    assert "trying again" in err.getvalue()


def test_watching_redraws_on_a_terminal_only() -> None:
    class Clock:
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    for terminal in (True, False):
        out = Stream(terminal=terminal)
        watched(Console(out=out, environ={}, clock=Clock()), 1.0, lambda: None)  # type: ignore[arg-type]
        assert ("\x1b[2J" in out.getvalue()) is terminal


@pytest.mark.parametrize(
    ("stats", "configuration", "reason"),
    [
        (Stats(), Configuration(), "no worker is registered"),
        (
            Stats(topics={"t": TopicStats(waiting=3, paused=True)}, workers=(a_row(),)),
            Configuration(),
            "is paused",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3)}, workers=(a_row(),)),
            Configuration(queue=QueuePolicy(suspended=True)),
            "suspended",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3, claimable=0, leased=5)}, workers=(a_row(),)),
            Configuration(topics={"t": TopicPolicy("t", limit=5)}),
            "5 of 5",
        ),
        (
            Stats(
                topics={"t": TopicStats(waiting=3, leased=1), "u": TopicStats(leased=3)},
                workers=(a_row(),),
            ),
            Configuration(queue=QueuePolicy(limit=4)),
            "the queue runs 4 of 4",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3, claimable=0)}, workers=(a_row(),)),
            Configuration(topics={"t": TopicPolicy("t", rate=Rate(1, 60.0))}),
            "rate of 1/1m",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3, claimable=0)}, workers=(a_row(),)),
            Configuration(topics={"t": TopicPolicy("t", key_limit=1)}),
            "at most 1 of a key",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3, claimable=0)}, workers=(a_row(),)),
            Configuration(topics={"t": TopicPolicy("t", ordering=Ordering.FIFO)}),
            "it is FIFO, and the task whose turn it is waits to be tried again",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3, claimable=0)}, workers=(a_row(),)),
            Configuration(topics={"t": TopicPolicy("t", ordering=Ordering.KEY)}),
            "it is PerKey, and the tasks whose turn it is run or wait",
        ),
        (
            Stats(
                topics={
                    "t": TopicStats(waiting=3, claimable=0, leased=6),
                    "u": TopicStats(leased=1),
                },
                workers=(a_row(),),
            ),
            Configuration(queue=QueuePolicy(limit=10), topics={"u": TopicPolicy("u", reserve=4)}),
            "the 3 free of the queue's 10 are kept for other topics",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3)}, workers=(a_row(state=WorkerState.FENCED),)),
            Configuration(),
            "fenced or draining",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3)}, workers=(a_row(beat=Beat(busy=2)),)),
            Configuration(),
            "all slots",
        ),
        (
            Stats(
                topics={"t": TopicStats(waiting=3)},
                workers=(
                    a_row(info=WorkerInfo(topics="mail,video-*")),
                    a_row(info=WorkerInfo(topics="* without s,t")),
                ),
            ),
            Configuration(),
            "none of the 2 workers takes topic t",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3)}, workers=(a_row(leased=2),)),
            Configuration(),
            "all slots",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=0, delayed=4)}, workers=(a_row(),)),
            Configuration(),
            "4 are not due yet",
        ),
        (
            Stats(topics={"t": TopicStats(waiting=3, claimable=3, oldest=2.0)}, workers=(a_row(),)),
            Configuration(),
            "nothing holds it: 3 wait, the oldest for 2.0s",
        ),
    ],
)
def test_why_names_what_holds_a_topic(
    stats: Stats, configuration: Configuration, reason: str
) -> None:
    assert reason in topic_reasons("t", stats, configuration)[0]


def test_why_names_every_reason_that_holds() -> None:
    stats = Stats(topics={"t": TopicStats(waiting=3, paused=True, leased=5)})
    configuration = Configuration(topics={"t": TopicPolicy("t", limit=5)})
    reasons = " / ".join(topic_reasons("t", stats, configuration))
    for part in ("paused", "no worker", "5 of 5"):
        assert part in reasons


def test_why_speaks_of_one_as_of_one() -> None:
    stats = Stats(topics={"t": TopicStats(waiting=0, delayed=1)}, workers=(a_row(),))
    assert topic_reasons("t", stats, Configuration()) == [
        "nothing waits in topic t; 1 is not due yet"
    ]


def test_why_tells_of_a_retry_that_keeps_an_order(shell: Shell, sent: Callable[..., str]) -> None:
    shell.broker.configure([TopicPolicy("mail", ordering=Ordering.FIFO)])
    sent("--topic", "mail")
    sent("--topic", "mail")
    (claim,) = shell.claim()
    shell.broker.settle([Later(claim.ref, delay=60.0)])
    assert "it is FIFO" in shell.json("why", "mail")["reasons"][0]


def test_why_blames_no_rate_for_what_is_paused() -> None:
    stats = Stats(topics={"t": TopicStats(waiting=3, claimable=0, paused=True)}, workers=(a_row(),))
    configuration = Configuration(topics={"t": TopicPolicy("t", rate=Rate(1, 60.0))})
    (reason,) = topic_reasons("t", stats, configuration)
    assert "paused" in reason


def test_why_names_tasks_that_no_app_has() -> None:
    beat = Beat(detail={"unknown": {"shop.tasks.gret": 3}})
    stats = Stats(topics={"t": TopicStats(delayed=1)}, workers=(a_row(beat=beat),))
    assert "shop.tasks.gret" in topic_reasons("t", stats, Configuration())[0]
    delayed = TaskState("x", State.DELAYED, topic="t")
    assert "shop.tasks.gret" in task_reasons(delayed, stats, Configuration())[1]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (TaskState("x", State.RUNNING, attempt=2, worker="w9"), "attempt 2, on w9"),
        (TaskState("x", State.DELAYED), "not due yet"),
        (TaskState("x", State.WAITING, topic="t"), "waits in topic t"),
        (TaskState("x", State.CANCELLED), "cancelled"),
        (TaskState("x", State.FAILED, reason="Expired"), "failed: Expired"),
        (
            TaskState(
                "x", State.FAILED, reason="Failed", failure=Failure("OSError", "no disk", "")
            ),
            "failed: Failed: OSError: no disk (as long as it is kept, `millgate dead show x`",
        ),
    ],
)
def test_why_knows_where_a_task_is(state: TaskState, reason: str) -> None:
    assert reason in task_reasons(state, Stats(), Configuration())[0]


def test_why_answers_for_topics_and_for_tasks(shell: Shell, sent: Callable[..., str]) -> None:
    name = sent("--topic", "mail")
    assert "no worker" in " ".join(shell.json("why", "mail")["reasons"])
    assert "waits in topic mail" in " ".join(shell.json("why", name)["reasons"])
    assert shell.json("why", "nobody-knows")["reasons"] == []
    assert shell.code == 1


def test_the_result_of_a_task_is_shown(shell: Shell, sent: Callable[..., str]) -> None:
    name = sent()
    (claim,) = shell.claim()
    shell.broker.settle([Ack(claim.ref, b"[1,2]")])
    (state,) = shell.json("show", name)
    assert (shell.code, state["result"]) == (0, [1, 2])
