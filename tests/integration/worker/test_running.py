"""What a worker does with ordinary tasks: claim, run, settle; and with such that cannot run here."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from millgate.brokers.base import State
from millgate.brokers.served.values import Sealed
from millgate.ids import new_id
from millgate.message import Options
from millgate.retry import RetryPolicy
from millgate.runtime.rss import rss_of
from support.bench import SERVED, every_broker, every_broker_and_memory
from support.wait import eventually
from support.workload import ODD


def test_it_runs_plain_and_async_tasks_and_keeps_their_results(bench: Any) -> None:
    plain = bench.send_many("add", [(number, 1) for number in range(50)])
    coroutines = bench.send_many("add_async", [(number, 2) for number in range(20)])
    bench.ready()
    assert [bench.result(sent) for sent in plain] == [number + 1 for number in range(50)]
    assert [bench.result(sent) for sent in coroutines] == [number + 2 for number in range(20)]
    assert bench.state(plain[0]).attempt == 1


def test_a_failing_task_is_tried_again_until_it_succeeds(bench: Any) -> None:
    sent = bench.send("flaky", str(bench.journal), 2)
    bench.ready()
    assert bench.result(sent) == 3
    assert [line[2] for line in bench.notes("start")] == ["1", "2", "3"]


def test_a_failing_task_is_buried_after_its_attempts_with_its_traceback(bench: Any) -> None:
    sent = bench.send("fail", "no good", options=Options(attempts=1))
    worker = bench.ready()
    state = bench.end_of(sent)
    assert (state.state, state.reason, state.failure.error) == ("failed", "Failed", "ValueError")
    assert "no good" in state.failure.message
    assert "in fail" in state.failure.traceback
    [line] = worker.events("task buried")
    assert (line["id"], line["task"], line["topic"], line["attempt"]) == (
        sent,
        "fail",
        "default",
        1,
    )


@pytest.mark.parametrize(
    ("bench", "task", "slots"),
    [
        *((name, "raise_odd", 1) for name in (*SERVED, "memory")),
        ("local", "raise_odd", 4),
        ("local", "raise_odd_async", 1),
        ("local", "raise_odd_async", 4),
    ],
    indirect=["bench"],
)
def test_whatever_a_task_raises_is_its_own_failure_and_disturbs_nobody(
    bench: Any, task: str, slots: int
) -> None:
    bench.configure()
    odd = {kind: bench.send(task, str(bench.journal), kind) for kind in ODD}
    others = bench.send_many("add", [(number, 1) for number in range(20)])
    worker = bench.ready(children=2, slots=slots)
    ends = dict(zip(odd, bench.ends_of(list(odd.values())), strict=True))
    assert {(one.state, one.reason, one.attempt) for one in ends.values()} == {
        ("failed", "Failed", 2)
    }
    assert {len(bench.notes(kind)) for kind in odd} == {2}
    names = {kind: one.failure.error.rpartition(".")[2] for kind, one in ends.items()}
    assert names == {
        "demanding": "Demanding",
        "exits": "Exits",
        "local": "Local",
        "socket": "RuntimeError",
        "huge": "ValueError",
        "exit": "SystemExit",
        "interrupt": "KeyboardInterrupt",
        "group": "BaseExceptionGroup",
        "texts": "ValueError",
    }
    letters = [bench.broker.dead_letter(sent) for sent in odd.values()]
    assert all(letter.failure.message for letter in letters if letter.id != odd["interrupt"])
    assert max(len(str(letter.failure)) for letter in letters) < 30_000
    assert [bench.result(sent) for sent in others] == [number + 1 for number in range(20)]
    assert worker.events("child ended") == []


def test_a_task_can_ask_for_another_attempt_and_can_refuse(bench: Any) -> None:
    later, refused = bench.send("later", str(bench.journal)), bench.send("refuse")
    bench.ready()
    assert bench.result(later) == 2
    assert bench.end_of(refused).reason == "Rejected"


def test_an_unknown_task_goes_back_uncharged_and_is_said_in_the_status(bench: Any) -> None:
    sent = bench.send("from_another_version")
    worker = bench.ready()
    eventually(lambda: worker.status()["unknown_tasks"].get("from_another_version"))
    state = bench.state(sent)
    assert state.state in ("delayed", "waiting", "running")
    dead = bench.broker.dead()
    assert dead == []
    [said] = worker.events("no such task in this app")  # once, however often it comes
    assert (said["level"], said["task"]) == ("warning", "from_another_version")
    [back, *_] = worker.events("task goes back")
    assert back["charge"] == "nothing"
    assert back["delay"] >= 1


NEW_APP = """
from millgate import App, current
app = App("memory://")

@app.task(name="from_another_version")
def new(number):
    return [number, current().attempt]
"""


@every_broker
def test_a_rolling_deploy_loses_no_task_that_only_the_new_version_knows(
    bench: Any, tmp_path: Path
) -> None:
    (tmp_path / "newer.py").write_text(NEW_APP, encoding="utf-8")
    bench.configure(retry=RetryPolicy(attempts=1, losses=0))  # neither is ever charged
    sent = bench.send_many("from_another_version", [(number,) for number in range(20)])
    old = bench.ready(children=1)
    eventually(lambda: old.status()["unknown_tasks"].get("from_another_version", 0) >= 40)
    assert bench.broker.dead() == []
    bench.ready(app="newer:app", cwd=tmp_path, children=1)
    assert old.stop() == 0
    assert [bench.result(one, timeout=30) for one in sent] == [[number, 1] for number in range(20)]


def test_arguments_that_the_task_cannot_take_are_buried_at_once(bench: Any) -> None:
    sent = bench.send("add", 1)
    bench.ready()
    state = bench.end_of(sent)
    assert (state.state, state.reason, state.attempt) == ("failed", "BadArguments", 1)


@every_broker_and_memory
@pytest.mark.parametrize("body", [b"", b"\xff\x00", b"[1,", b'{"not":"a call"}'])
def test_what_nobody_can_read_is_buried_whole_and_at_once(bench: Any, body: bytes) -> None:
    message = replace(bench.message("add", (1, 2), headers={"from": "elsewhere"}), body=body)
    bench.broker.publish([message])
    worker = bench.ready(children=1)
    state = bench.end_of(message.id)
    assert (state.state, state.reason, state.attempt) == ("failed", "Undecodable", 1)
    letter = bench.broker.dead_letter(message.id)
    assert (letter.message.body, letter.message.headers) == (body, {"from": "elsewhere"})
    assert bench.result(bench.send("add", 1, 1)) == 2
    assert worker.events("child ended") == []


#: Records that no Millgate wrote, or one to come.
FOREIGN = {
    "empty": b"",
    "noise": b"\xff\x00junk\x93",
    "text": b"hello",
    "another list": msgpack.packb(["not", "ours"]),
    "no task": msgpack.packb([1, None, b"[[],{}]", None, None, False, None, None]),
    "a later format": msgpack.packb([99, "add", b"[[1,2],{}]", None, None, False, None, None]),
    "wrong headers": msgpack.packb([1, "add", b"[[1,2],{}]", None, [[{}]], False, None, None]),
    "no utf-8": b"\x98\x01\xa3a\xffd\xc4\x00\xc0\xc0\xc2\xc0\xc0",
}


@every_broker_and_memory
def test_what_is_no_message_of_ours_is_buried_whole_and_holds_up_nobody(bench: Any) -> None:
    sent = {}
    for what, record in FOREIGN.items():
        message = Sealed(id=new_id(1.0e9), topic="default", task="", body=record)
        sent[what] = message.id
        bench.broker.publish([message])
    good = bench.send("add", 1, 1)
    assert len(bench.broker.peek("default", State.WAITING)) == len(FOREIGN) + 1
    worker = bench.ready(children=1)
    assert bench.result(good) == 2
    ends = bench.ends_of(list(sent.values()))
    assert {(end.state, end.reason, end.attempt) for end in ends} == {("failed", "Undecodable", 1)}
    letters = {what: bench.broker.dead_letter(one) for what, one in sent.items()}
    assert {what: (letter.message, letter.raw) for what, letter in letters.items()} == {
        what: (None, record) for what, record in FOREIGN.items()
    }
    assert worker.events("child ended") == []
    assert worker.get("/livez")[0] == 200


@every_broker_and_memory
def test_a_result_of_twelve_megabytes_arrives_and_one_of_twenty_is_refused(bench: Any) -> None:
    fits, too_big = bench.send("big", 12 * 2**20), bench.send("big", 20 * 2**20)
    bench.ready()
    assert bench.result(fits) == "b" * (12 * 2**20)
    state = bench.end_of(too_big)
    assert (state.state, state.reason) == ("failed", "ResultRefused")
    assert "reference" in state.failure.message


def test_a_result_that_cannot_be_encoded_is_refused_at_once(bench: Any) -> None:
    sent = bench.send("not_json")
    bench.ready()
    assert bench.end_of(sent).reason == "ResultRefused"


def test_a_child_has_no_driver_and_no_connection_of_the_supervisor(bench: Any) -> None:
    names, open_files = bench.send("modules"), bench.send("descriptors")
    bench.ready()
    loaded = set(bench.result(names))
    assert not loaded & {"psycopg", "hiredis", "redis", "pika", "kubernetes", "kopf"}
    assert not {name for name in loaded if name.startswith("millgate.brokers.")}
    sockets = [name for name in bench.result(open_files) if name.startswith("socket:")]
    assert len(sockets) <= 3  # the link, and the two ends by which an event loop wakes itself


def test_a_task_sends_and_waits_through_its_supervisor(bench: Any) -> None:
    many, waiting = bench.send("send_more", 5), bench.send("ask_and_wait")
    bench.ready(children=2)
    ids = bench.result(many)
    assert [bench.result(sent) for sent in ids] == [0, 2, 4, 6, 8]
    assert bench.result(waiting) == 42


def test_progress_is_seen_while_the_task_runs(bench: Any) -> None:
    sent = bench.send("with_progress")
    bench.ready()
    eventually(lambda: bench.state(sent).progress == b'{"done":1}', timeout=5)
    bench.end_of(sent)


def test_a_lock_lets_one_run_in_at_a_time_and_outlives_its_ttl_while_it_is_held(bench: Any) -> None:
    ids = bench.send_many("with_lock", [(str(bench.journal), 2.5), (str(bench.journal), 0.1)])
    bench.ready()
    fences = [bench.result(sent, 30) for sent in ids]
    assert len(set(fences)) == 2
    assert [line[0] for line in bench.notes()] == ["in", "out", "in", "out"]
    assert bench.broker.locks() == []


@every_broker
def test_a_lock_ends_soon_after_the_worker_that_was_killed_with_it(bench: Any) -> None:
    bench.configure(lease=1.0)
    sent = bench.send_many("with_lock", [(str(bench.journal), 1.0)] * 2)
    worker = bench.ready(children=1)
    bench.until_noted("in")
    worker.end()
    bench.ready()
    fences = {bench.result(one, 30) for one in sent}
    assert len(fences) == 2
    assert [line[0] for line in bench.notes()] == ["in", "in", "out", "in", "out"]
    assert bench.broker.locks() == []


@every_broker_and_memory
def test_a_lock_goes_back_with_the_child_that_held_it(bench: Any) -> None:
    sent = bench.send("die_with_lock")
    bench.ready()
    assert bench.result(sent) == 2
    assert bench.broker.locks() == []


@pytest.mark.parametrize("kind", ["fork", "forkserver", "spawn", "manager", "shell"])
def test_a_task_may_start_processes_of_its_own(bench: Any, kind: str) -> None:
    sent = bench.send("spread", kind)
    bench.ready()
    assert bench.result(sent) == 6


def test_burst_ends_when_nothing_is_left_retries_included(bench: Any) -> None:
    ids = [bench.send("flaky", str(bench.journal), 1), bench.send("add", 1, 2)]
    worker = bench.start(burst=True)
    assert worker.wait(20) == 0
    assert [bench.state(sent).state for sent in ids] == ["succeeded", "succeeded"]


@every_broker
def test_delayed_tasks_start_once_and_in_time_whoever_comes_and_goes(bench: Any) -> None:
    bench.configure(lease=2.0)  # shorter than any of the delays
    delays = [2.5 + number % 8 / 2 for number in range(40)]
    before = time.time()
    sent = {
        bench.send("work", str(bench.journal), 0.0, delay=delay): before + delay for delay in delays
    }
    first = bench.ready(children=1)
    bench.ready(children=1)
    bench.until_noted("end", 5)
    first.end()
    bench.ready(children=1)
    states = bench.ends_of(list(sent))
    assert {state.state for state in states} == {"succeeded"}
    starts = [(line[1], line[3], float(line[4])) for line in bench.notes("start")]
    assert {one for one, _, _ in starts} == sent.keys()
    assert all(at > sent[one] - 0.05 for one, _, at in starts)
    # what the killed worker had begun and could not tell the end of started again, and nothing that it only held
    began: dict[str, list[str]] = {}
    for one, process, _ in starts:
        began.setdefault(one, []).append(process)
    again = [processes for processes in began.values() if len(processes) > 1]
    assert all(len(set(processes)) == 2 for processes in again)
    assert len({processes[0] for processes in again}) <= 1


@every_broker
def test_what_is_delayed_weighs_on_no_worker(bench: Any) -> None:
    first = bench.ready(children=1)
    assert bench.result(bench.send("add", 1, 1)) == 2
    before = rss_of(first.supervisor) or 0
    for _ in range(40):  # 40 MB
        bench.send_many("echo", [("x" * 10_000,)] * 100, delay=3600.0)
    assert bench.result(bench.send("add", 1, 1)) == 2
    sizes = [rss_of(first.supervisor) or 0]
    first.end()
    second = bench.ready(children=1)
    assert bench.result(bench.send("add", 1, 1)) == 2
    sizes.append(rss_of(second.supervisor) or 0)
    assert max(sizes) < before + 15e6
    topic = bench.broker.stats().topics["default"]
    assert (topic.delayed, topic.leased, topic.started) == (4000, 0, 3)


def test_many_tasks_run_once_each(bench: Any) -> None:
    ids = bench.send_many("add", [(number, 0) for number in range(1000)])
    worker = bench.start(burst=True)
    assert worker.wait(60) == 0
    states = bench.broker.states(ids)
    assert {state.state for state in states} == {"succeeded"}
    assert {state.attempt for state in states} == {1}


@every_broker
def test_a_long_task_does_not_hold_what_was_buffered_behind_it(bench: Any) -> None:
    bench.configure(lease=2.0)  # shorter than what is waited for: waiting costs no attempt
    warm = bench.send_many("work", [(str(bench.journal), 0)] * 40)
    worker = bench.ready(children=1)
    for sent in warm:
        bench.result(sent)
    slow = bench.send("work", str(bench.journal), 6)  # as short as ever, as far as anybody knows
    quick = bench.send_many("work", [(str(bench.journal), 0)] * 8)
    second = bench.ready(children=1)
    for sent in quick:
        bench.result(sent, timeout=5)
    assert not bench.state(slow).state.final
    assert {bench.state(sent).state for sent in quick} == {"succeeded"}
    starts = [line[1] for line in bench.notes("start")]
    assert len(starts) == len(set(starts))
    assert {bench.state(sent).attempt for sent in (*quick, slow) if bench.result(sent)} == {1}
    assert worker.process.poll() is None
    assert second.process.poll() is None
