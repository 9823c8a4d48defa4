"""The broker's server goes away and comes back: the worker outlives it, keeps what has ended, and works on."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import Any

import pytest

from millgate.errors import BrokerError
from millgate.message import Message
from millgate.queues import TopicPolicy
from support.wait import eventually

#: Seconds of the long outage, and within which everything goes on when the server is back.
MINUTE, BACK = 60.0, 15.0


def test_the_worker_outlives_a_server_that_goes_away_and_keeps_its_outcomes(
    own_bench: Any,
) -> None:
    own_bench.configure(lease=60.0)
    sent = own_bench.send("work", str(own_bench.journal), 1.5)
    worker = own_bench.ready()
    own_bench.until_noted("start")
    own_bench.venue.crash()
    own_bench.until_noted("end")
    eventually(lambda: worker.events("broker failed"), timeout=15)  # a call's deadline and more
    assert worker.get("/livez")[0] == 200
    assert "millgate_broker_up 0" in worker.get("/metrics")[1]
    assert worker.status()["broker_up"] is False
    own_bench.venue.start()
    began = time.monotonic()
    [state] = own_bench.ends_of([sent])
    assert (state.state, state.attempt) == ("succeeded", 1)
    assert own_bench.result(own_bench.send("add", 2, 2)) == 4
    assert time.monotonic() - began < 15
    assert [
        line["event"] for line in worker.log() if line.get("event", "").startswith("broker")
    ] == ["broker failed", "broker is back"]


@pytest.mark.parametrize("own_bench", ["local"], indirect=True)  # what waits is the worker
def test_a_worker_that_is_to_stop_waits_for_the_server_to_take_its_outcomes(
    own_bench: Any,
) -> None:
    own_bench.configure(lease=90.0)
    sent = own_bench.send("work", str(own_bench.journal), 1.0)
    worker = own_bench.ready(children=1, drain_timeout="60s")
    own_bench.until_noted("start")
    own_bench.venue.crash()
    worker.signal(signal.SIGTERM)
    own_bench.until_noted("end")
    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(25)
    own_bench.venue.start()
    assert worker.wait() == 0
    state = own_bench.state(sent)
    assert (state.state, state.attempt) == ("succeeded", 1)


@pytest.mark.parametrize("own_bench", ["postgres"], indirect=True)  # one is enough for a minute
def test_a_minute_without_the_server_costs_no_run_and_no_result(own_bench: Any) -> None:
    bench = own_bench
    bench.broker.configure([TopicPolicy("default", lease=90.0), TopicPolicy("brief", lease=20.0)])
    journal = str(bench.journal)
    through = bench.send("work", journal, MINUTE + 10)
    within = bench.send("work", journal, 5.0)
    worker = bench.ready(children=2)
    bench.until_noted("start", 2)
    idle = bench.ready(children=1, topics="none")
    orphan = bench.send("work", journal, 1.0, topic="brief")
    dies = bench.start(children=1, topics="brief")
    bench.until_noted("start", 3)
    supervisor, children = worker.supervisor, worker.children
    bench.venue.crash()
    down = time.monotonic()
    dies.end()
    bench.until_noted("end")
    eventually(lambda: worker.events("broker failed"), timeout=20)
    while (passed := time.monotonic() - down) < MINUTE:  # real time: it is the server that counts
        assert worker.get("/livez")[0] == 200
        assert "millgate_broker_up 0" in worker.get("/metrics")[1]
        assert worker.status()["broker_up"] is False
        assert (worker.supervisor, worker.children) == (supervisor, children)
        assert worker.get("/readyz")[0] == 200  # it works
        time.sleep(min(5.0, MINUTE - passed))
    code, words = idle.get("/readyz")
    assert (code, "the broker has not answered for" in words) == (503, True)
    assert idle.get("/livez")[0] == 200
    bench.venue.start()
    began = time.monotonic()
    eventually(lambda: idle.get("/readyz")[0] == 200, timeout=BACK)
    [kept] = bench.ends_of([within], BACK)
    assert (kept.state, kept.attempt) == ("succeeded", 1)
    assert bench.result(bench.send("add", 2, 2), BACK) == 4
    [elsewhere] = bench.ends_of([orphan], BACK)  # its lease has lapsed on the server's clock
    assert (elsewhere.state, elsewhere.attempt) == ("succeeded", 2)
    assert bench.result(through, MINUTE) in children
    assert bench.state(through).attempt == 1
    assert time.monotonic() - began < BACK
    assert sorted(line[1] for line in bench.notes("start")) == sorted(
        [through, within, orphan, orphan]
    )
    assert "millgate_broker_up 1" in worker.get("/metrics")[1]
    found = [line["event"] for line in worker.log() if line.get("event", "").startswith("broker")]
    assert found == ["broker failed", "broker is back"]
    assert worker.stop() == 0


def test_a_server_that_crashes_under_load_costs_no_task_and_no_second_run(own_bench: Any) -> None:
    own_bench.configure(lease=60.0)
    workers = [own_bench.ready(children=2) for _ in range(2)]
    began, sent, down = time.monotonic(), [], False
    while (passed := time.monotonic() - began) < 4.0:
        if not down and passed > 1.5:
            own_bench.venue.crash()
            own_bench.venue.start()
            down = True
        batch = [
            own_bench.message("work", (str(own_bench.journal), 0.02), result_ttl=0)
            for _ in range(5)
        ]
        _publish(own_bench, batch)
        sent += [message.id for message in batch]
        time.sleep(0.04)
    own_bench.ends_of(sent, timeout=30)
    starts = [line[1] for line in own_bench.notes("start")]
    assert sorted(starts) == sorted(sent)
    assert sorted(line[1] for line in own_bench.notes("end")) == sorted(sent)
    assert own_bench.broker.dead() == []
    assert all(worker.process.poll() is None for worker in workers)


def _publish(bench: Any, batch: list[Message]) -> None:
    """Until it is known to be there; the ids make it harmless to say it twice."""

    def published() -> bool:
        try:
            bench.broker.publish(batch)
        except BrokerError:
            return False
        return True

    eventually(published, timeout=30)
