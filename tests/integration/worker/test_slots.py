"""Several tasks at once in one child: coroutines in its loop, plain functions in its threads."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from support.bench import every_broker

THREADS_ONLY = """
import os, threading, time
from millgate import App, SoftTimeout, current
app = App("memory://")

@app.task(name="nap")
def nap(seconds):
    time.sleep(seconds)
    return [os.getpid(), threading.current_thread().name]

@app.task(name="spin", soft_timeout=0.3)
def spin():
    try:
        while True:
            pass
    except SoftTimeout:
        return "stopped"

@app.task(name="die")
def die(seconds):
    time.sleep(seconds)
    os._exit(4)

@app.task(name="loaded")
def loaded():
    import sys
    return "asyncio" in sys.modules
"""


def test_coroutines_share_a_child(bench: Any) -> None:
    ids = bench.send_many("work_async", [(str(bench.journal), 1.0)] * 20)
    bench.ready(children=1, slots=20)
    began = time.monotonic()
    pids = {bench.result(sent) for sent in ids}
    assert len(pids) == 1
    assert time.monotonic() - began < 5


def test_plain_functions_run_beside_the_loop_in_threads(bench: Any) -> None:
    ids = bench.send_many("work", [(str(bench.journal), 1.0)] * 4)
    ids += bench.send_many("work_async", [(str(bench.journal), 1.0)] * 4)
    bench.ready(children=1, slots=8)
    began = time.monotonic()
    assert len({bench.result(sent) for sent in ids}) == 1
    assert time.monotonic() - began < 4


def test_an_app_without_coroutines_has_threads_and_no_asyncio(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(THREADS_ONLY, encoding="utf-8")
    naps = bench.send_many("nap", [(0.6,)] * 4)
    spin, loaded = bench.send("spin"), bench.send("loaded")
    bench.ready(app="threads:app", cwd=tmp_path, children=1, slots=4)
    assert len({tuple(bench.result(sent)) for sent in naps}) == 4
    assert bench.result(spin) == "stopped"
    assert bench.result(loaded) is False


NESTED = """
import asyncio
from millgate import App
app = App("memory://")

@app.task(name="leaf", retries=0)
async def leaf(number):
    return number

@app.task(name="branch", retries=0)
async def branch(number):
    return await (await leaf.send_async(number)).result_async(60)

@app.task(name="root", retries=0)
async def root(number):
    return await (await branch.send_async(number)).result_async(60)

@app.task(name="fan", retries=0)
async def fan(count):
    sent = await leaf.send_many_async([(number,) for number in range(count)])
    return sum(await asyncio.gather(*[one.result_async(60) for one in sent]))
"""


def test_coroutines_of_a_child_wait_for_others_of_it_however_many_they_are(
    bench: Any, tmp_path: Path
) -> None:
    (tmp_path / "nested.py").write_text(NESTED, encoding="utf-8")
    sent = bench.send_many("root", [(number,) for number in range(40)])
    bench.ready(app="nested:app", cwd=tmp_path, children=1, slots=120)
    assert [bench.result(one, timeout=50) for one in sent] == list(range(40))


def test_waits_take_little_of_what_a_child_may_reserve(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "nested.py").write_text(NESTED, encoding="utf-8")
    sent = bench.send("fan", 60)
    bench.ready(app="nested:app", cwd=tmp_path, children=2, slots=4, hard_max_rss="150Mi")
    assert bench.result(sent, timeout=50) == sum(range(60))


GUARDED = """
import asyncio
from millgate import App, current
app = App("memory://")

@app.task(name="guarded", retries=0)
async def guarded():
    async with current().lock("the lock", wait="30s") as lock:
        await asyncio.sleep(0.1)
        return lock.fence
"""


def test_coroutines_of_a_child_take_turns_with_a_lock(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "guarded.py").write_text(GUARDED, encoding="utf-8")
    sent = bench.send_many("guarded", [()] * 4)
    bench.ready(app="guarded:app", cwd=tmp_path, children=1, slots=4)
    assert len({bench.result(one, timeout=40) for one in sent}) == 4
    assert bench.broker.locks() == []


VARIABLES = """
from contextvars import ContextVar
from millgate import App
app = App("memory://")
given, own = ContextVar("given"), ContextVar("own")

@app.on_start
{word} begin():
    given.set("of the child")

@app.task(name="look")
{word} look(number):
    seen = [given.get(None), own.get(None)]
    given.set(number)
    own.set(number)
    return seen
"""


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("word", ["def", "async def"])
def test_a_run_finds_what_the_child_has_set_in_context_variables_and_nothing_of_another_run(
    bench: Any, tmp_path: Path, word: str, slots: int
) -> None:
    (tmp_path / "variables.py").write_text(VARIABLES.format(word=word), encoding="utf-8")
    sent = bench.send_many("look", [(number,) for number in range(8)])
    bench.ready(app="variables:app", cwd=tmp_path, children=1, slots=slots)
    assert [bench.result(one) for one in sent] == [["of the child", None]] * 8


def test_never_more_at_once_than_there_are_slots(bench: Any) -> None:
    ids = bench.send_many("work_async", [(str(bench.journal), 0.2)] * 30)
    bench.ready(children=2, slots=3)
    for sent in ids:
        bench.result(sent, timeout=30)
    events = sorted((float(line[4]), line[0]) for line in bench.notes())
    running = most = 0
    for _, word in events:
        running += 1 if word == "start" else -1
        most = max(most, running)
    assert most == 6


def test_a_child_that_dies_charges_all_its_slots(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(THREADS_ONLY, encoding="utf-8")
    bench.configure()
    nap, die = bench.send("nap", 1.0), bench.send("die", 0.3)
    worker = bench.ready(app="threads:app", cwd=tmp_path, children=1, slots=2)
    bench.result(nap, timeout=30)
    charges = {line["id"]: line["charge"] for line in worker.events("task goes back")}
    assert charges[die] == "loss"


def test_a_drain_asks_coroutines_to_stop(bench: Any) -> None:
    bench.configure()
    ids = bench.send_many("work_async", [(str(bench.journal), 60.0)] * 5)
    worker = bench.ready(children=1, slots=5, drain_timeout="4s")
    bench.until_noted("start", 5)
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    assert {state.state for state in bench.broker.states(ids)} == {"waiting"}
    assert {line["charge"] for line in worker.events("task goes back")} == {"nothing"}


def test_tasks_that_fill_the_link_in_both_directions_do_not_lock_up(bench: Any) -> None:
    ids = bench.send_many("big", [(300_000,)] * 60)
    bench.ready(children=1)
    for sent in ids:
        assert len(bench.result(sent, timeout=30)) == 300_000


@every_broker
def test_a_worker_that_is_killed_in_the_middle_of_much_loses_nothing(bench: Any) -> None:
    bench.configure(lease=1.5)
    ids = bench.send_many("work", [(str(bench.journal), 0.01)] * 300)
    worker = bench.ready(children=2)
    bench.until_noted("end", 60)
    os.kill(worker.supervisor, signal.SIGKILL)
    worker.wait(5)
    bench.ready(children=2)
    for sent in ids:
        assert bench.end_of(sent, timeout=30).state == "succeeded"
    ends = [line[1] for line in bench.notes("end")]
    assert set(ends) == set(ids)
    assert len(ends) - len(ids) <= 2 + 128  # only what was in hand at the kill may have run twice
