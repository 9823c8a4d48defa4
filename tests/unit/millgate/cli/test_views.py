"""status, top, tasks and why: what they show of a queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers.base import Server, State, TaskState
from millgate.cli.console import Console
from millgate.cli.status import headline
from millgate.cli.watch import watched
from millgate.cli.why import task_reasons, topic_reasons
from millgate.errors import BrokerUnavailable
from millgate.fleet import Beat, WorkerInfo, WorkerRow, WorkerState
from millgate.limits import Rate
from millgate.outcome import Failure
from millgate.queues import Configuration, Ordering, QueuePolicy, TopicPolicy
from millgate.settlement import Ack, Charge, Later
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


@pytest.mark.parametrize(("seconds", "said"), [(None, False), (12.0, False), (720.0, True)])
def test_status_tells_of_a_transaction_that_stays_open(seconds: float | None, said: bool) -> None:
    server = Server("postgres", "db:5432", detail={"oldest_transaction": seconds})
    line = headline(server, "q", Configuration(), Stats())
    assert ("a transaction is open for 12m" in line) is said


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
            "is paused: millgate resume t",
        ),
        (  # by both: the command would change nothing
            Stats(topics={"t": TopicStats(waiting=3, paused=True)}, workers=(a_row(),)),
            Configuration(topics={"t": TopicPolicy("t", paused=True)}),
            "is paused by its policy: `paused` in its manifest",
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


def test_why_names_a_busy_key_beside_all_else_that_holds_a_task(
    shell: Shell, sent: Callable[..., str]
) -> None:
    shell.broker.configure([TopicPolicy("mail", key_limit=1, limit=1)])
    sent("--topic", "mail", "--key", "ann")
    shell.claim()
    held = sent("--topic", "mail", "--key", "ann")
    free = sent("--topic", "mail", "--key", "bob")
    assert shell.broker.stats().topics["mail"].claimable == 0
    shell.broker.pause("mail", True)
    key = "at most 1 of its key 'ann' at once, and others of it come first"
    reasons = shell.json("why", held)["reasons"]
    assert [reason.split(":")[0] for reason in reasons[:2]] == [
        "it waits in topic mail",
        "topic mail is paused",
    ]
    assert reasons[-2:] == ["topic mail runs 1 of 1 at once, its limit", key]
    assert key not in shell.json("why", free)["reasons"]
    assert not any("key" in reason for reason in shell.json("why", free)["reasons"])
    shell.broker.pause("mail", False)
    shell.broker.configure([TopicPolicy("mail", key_limit=1)])
    assert key in shell.json("why", held)["reasons"]  # though others of the topic may start
    assert any("(keys 'ann')" in reason for reason in shell.json("why", "mail")["reasons"])


def test_why_names_the_turn_of_a_key_that_waits_to_be_tried_again(
    shell: Shell, sent: Callable[..., str]
) -> None:
    shell.broker.configure([TopicPolicy("mail", ordering=Ordering.KEY)])
    sent("--topic", "mail", "--key", "ann")
    (claim,) = shell.claim()
    shell.broker.settle([Later(claim.ref, 60.0, Charge.FAILURE, Failure("E"))])
    held = sent("--topic", "mail", "--key", "ann")
    last = sent("--topic", "mail", "--key", "ann")
    for name in (held, last):
        assert "PerKey: one of its key 'ann' at a time" in shell.json("why", name)["reasons"][-1]
    (reason,) = shell.json("why", "mail")["reasons"]
    assert "which holds back 2 of those that wait (keys 'ann')" in reason


def test_why_names_the_rate_beside_keys_that_do_not_explain_everything(
    shell: Shell, sent: Callable[..., str]
) -> None:
    shell.broker.configure([TopicPolicy("mail", key_limit=1, rate=Rate(1, 3600.0))])
    sent("--topic", "mail", "--key", "ann")
    shell.claim()
    sent("--topic", "mail", "--key", "ann")
    assert not any("rate" in reason for reason in shell.json("why", "mail")["reasons"])
    sent("--topic", "mail", "--key", "bob")
    reasons = shell.json("why", "mail")["reasons"]
    assert "of a key at once" in reasons[-2]
    assert "its rate of 1/1h" in reasons[-1]


def test_why_names_a_pause_of_what_is_not_due_yet(shell: Shell, sent: Callable[..., str]) -> None:
    name = sent("--topic", "mail", "--delay", "1h")
    shell.broker.pause("mail", True)
    reasons = shell.json("why", name)["reasons"]
    assert "not due yet" in reasons[0]
    assert "topic mail is paused" in reasons[1]


def test_why_names_slots_that_are_kept_for_others_beside_a_pause() -> None:
    stats = Stats(
        topics={"t": TopicStats(waiting=3, claimable=0, leased=6, paused=True)}, workers=(a_row(),)
    )
    configuration = Configuration(
        queue=QueuePolicy(limit=10), topics={"u": TopicPolicy("u", reserve=4)}
    )
    reasons = topic_reasons("t", stats, configuration)
    assert "paused" in reasons[0]
    assert "the 4 free of the queue's 10 are kept for other topics" in reasons[1]


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
