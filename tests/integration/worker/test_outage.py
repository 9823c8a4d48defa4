"""The broker's server goes away and comes back: the worker outlives it, keeps what has ended, and works on."""

from __future__ import annotations

import time
from typing import Any

from millgate.errors import BrokerError
from millgate.message import Message
from support.wait import eventually


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
