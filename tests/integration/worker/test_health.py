"""Probes, metrics and status of a real worker; the registry as the fleet sees it; schedules."""

from __future__ import annotations

import socket
import time
from typing import Any
from urllib.parse import unquote, urlsplit

from support.bench import every_broker
from support.wait import eventually


def test_it_answers_all_four_pages_and_nothing_else(bench: Any) -> None:
    sent = bench.send("add", 1, 1)
    worker = bench.ready()
    bench.end_of(sent)
    assert worker.get("/livez") == (200, "ok\n")
    assert worker.get("/readyz") == (200, "ok\n")
    text = worker.get("/metrics")[1]
    assert 'millgate_tasks_total{topic="default",task="add",outcome="succeeded"} 1' in text
    assert "# TYPE millgate_task_seconds histogram" in text
    assert "millgate_broker_up 1" in text
    assert 'millgate_broker_seconds_count{verb="claim"}' in text
    assert "millgate_empty_claims_total" in text
    # measured at leisure, the first time some moments after the start
    eventually(lambda: 'millgate_rss_bytes{process="largest child"}' in worker.get("/metrics")[1])
    assert worker.get("/nothing")[0] == 404


def test_the_status_shows_what_runs(bench: Any) -> None:
    bench.send("work", str(bench.journal), 5.0)
    worker = bench.ready(children=1)
    bench.until_noted("start")
    eventually(lambda: worker.status()["children"][0]["rss"])
    status = worker.status()
    [child] = status["children"]
    [run] = child["runs"]
    assert (run["task"], run["attempt"]) == ("work", 1)
    assert child["rss"] > 2**20
    assert status["claims"] == {"active": 1, "unsettled": 0}


@every_broker
def test_no_page_and_no_log_line_has_the_password_or_an_argument(bench: Any) -> None:
    parts = urlsplit(bench.url)
    place = parts.path if parts.hostname is None else f"{parts.hostname}:{parts.port}"
    worker = bench.ready(children=1)
    bench.result(bench.send("echo", "token=argu-MARK"))
    bench.end_of(bench.send("add", "argu-MARK"))  # which it cannot take
    assert place in worker.status()["broker"]
    pages = [worker.get(page)[1] for page in ("/status", "/metrics", "/readyz")]
    log = worker.log_file.read_text(encoding="utf-8")
    assert place in log
    for text in (*pages, log):
        assert f":{parts.password}@" not in text
        assert "argu-MARK" not in text
        assert parts.password in (None, parts.username) or unquote(parts.password) not in text


def test_a_client_that_says_nothing_does_not_hold_the_probes(bench: Any) -> None:
    worker = bench.ready()
    silent = [socket.create_connection(("127.0.0.1", worker.port)) for _ in range(10)]
    began = time.monotonic()
    assert worker.get("/livez")[0] == 200
    assert time.monotonic() - began < 4
    for connection in silent:
        connection.close()


def test_the_registry_shows_a_busy_worker(bench: Any) -> None:
    bench.configure(lease=3.0)
    bench.send("work", str(bench.journal), 4.0)
    bench.ready(children=2)

    def busy_row() -> Any:
        [row] = bench.broker.stats().workers
        return row if row.beat.busy == 1 else None

    row = eventually(busy_row)
    assert (row.name, row.info.slots, row.leased) == ("worker-0", 2, 1)
    assert row.beat.rss > 30 * 2**20
    assert row.beat.oldest > 0


def test_a_schedule_fires_once_for_two_workers(bench: Any) -> None:
    workers = [bench.ready(children=1), bench.ready(children=1)]
    # the present minute counts as on time only for schedules that are known; the next one is at most 60 s away
    fired = eventually(lambda: bench.broker.schedules().get("every_minute"), timeout=70, every=0.2)
    sent = f"cron:every_minute:{fired:.0f}"
    assert bench.result(sent) == "fired"
    time.sleep(0.5)
    assert sum(len(worker.events("schedule fired")) for worker in workers) == 1
