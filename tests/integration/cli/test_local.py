"""The commands against a real broker process and a real worker: what another process stored is what they see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.wait import eventually

APP = """
import time
from millgate import App
app = App()

@app.task(topic="sums")
def add(a, b):
    return a + b

@app.task(topic="sums", retries=0)
def fail():
    raise ValueError("no such thing")

@app.task(topic="naps")
def nap(seconds):
    time.sleep(seconds)
"""


_DRAIN = ("--drain-timeout", "1s")


class Place:
    """A broker of its own, and the commands aimed at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "calc.py").write_text(APP)
        self.environ = {
            **os.environ,
            "MILLGATE_BROKER": f"local://{folder}/b.sock",
            "PYTHONPATH": str(folder),
        }
        self.started: list[subprocess.Popen[bytes]] = []
        self.start("brokerd", "--listen", str(folder / "b.sock"), "--journal", "off")
        eventually(lambda: self("status").returncode == 0)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                (sys.executable, "-m", "millgate.cli", *arguments),
                env=self.environ,
                stdout=log,
                stderr=log,
            )
        self.started.append(process)
        return process

    def __call__(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "millgate.cli", *arguments),
            env=self.environ,
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        done = self(*arguments, "-o", "json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for process in reversed(place.started):
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture
def worker(place: Place) -> subprocess.Popen[bytes]:
    process = place.start("worker", "--app", "calc:app", "--children", "1", "--name", "w1", *_DRAIN)
    eventually(lambda: [row["name"] for row in place.json("status")["stats"]["workers"]] == ["w1"])
    return process


def test_a_sent_task_is_run_and_its_result_printed(
    place: Place, worker: subprocess.Popen[bytes]
) -> None:
    call = ("--topic", "sums", "--args", "[2]", "--kwargs", '{"b": 3}')
    (state,) = place.json("send", "calc.add", *call, "--wait")
    assert (state["state"], state["result"]) == ("succeeded", 5)


def test_a_failed_task_is_shown_replayed_and_purged(
    place: Place, worker: subprocess.Popen[bytes]
) -> None:
    done = place("send", "calc.fail", "--id", "f1", "--topic", "sums", "--attempts", "1", "--wait")
    assert done.returncode == 1
    assert "ValueError: no such thing" in done.stdout
    letter = place.json("dead", "show", "f1")
    assert (letter["task"], letter["reason"]) == ("calc.fail", "Failed")
    assert "calc.py" in letter["failure"]["traceback"]
    assert place.json("dead", "replay", "f1")["replayed"] == ["f1"]
    eventually(lambda: place("dead", "show", "f1").returncode == 0)
    assert place.json("dead", "purge", "--all", "--yes") == {"removed": 1}


def test_a_running_task_is_seen_and_cancelled(
    place: Place, worker: subprocess.Popen[bytes]
) -> None:
    place("send", "calc.nap", "--id", "n1", "--topic", "naps", "--args", "[60]")
    place("send", "calc.nap", "--id", "n2", "--topic", "naps", "--args", "[60]")
    eventually(lambda: place.json("show", "n1")[0]["state"] == "running")
    why = place.json("why", "n1")["reasons"]
    assert "attempt 1, on w1" in why[0]
    assert place("cancel", "n1", "n2").returncode == 0
    eventually(lambda: place.json("show", "n1")[0]["state"] == "cancelled", timeout=40)


def test_pausing_a_topic_holds_a_real_worker(place: Place, worker: subprocess.Popen[bytes]) -> None:
    place("pause", "sums")
    place("send", "calc.add", "--id", "a1", "--topic", "sums", "--args", "[1, 1]")
    assert place("show", "a1", "--wait", "1s").returncode == 1
    assert "paused" in place("why", "a1").stdout
    place("resume", "sums")
    assert place("show", "a1", "--wait", "20s").returncode == 0


def test_why_names_the_busy_slots_of_a_real_worker(
    place: Place, worker: subprocess.Popen[bytes]
) -> None:
    place("send", "calc.nap", "--topic", "naps", "--args", "[30]")
    place("send", "calc.nap", "--topic", "naps", "--args", "[30]")
    eventually(lambda: place.json("status")["stats"]["topics"]["naps"]["leased"] >= 1)
    assert place("why", "naps").returncode == 0


def test_no_broker_is_exit_4_within_the_deadline_and_one_line(place: Place, tmp_path: Path) -> None:
    done = place("status", "--broker", f"local://{tmp_path}/nobody.sock", "--deadline", "2s")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_error(place: Place) -> None:
    place("send", "calc.add", "--lines", "-", typed="[1, 2]\n" * 900)
    command = f"{sys.executable} -m millgate.cli tasks --limit 900 | head -n 1"
    done = subprocess.run(
        ("bash", "-c", f"set -o pipefail; {command}"),
        env=place.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_bench_measures_a_worker_and_leaves_the_queue_empty(place: Place) -> None:
    done = place("bench", "--tasks", "400", "--samples", "20", "-o", "json")
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    for name in ("drain_per_s", "enqueue_per_s", "bulk_enqueue_per_s"):
        assert measured[name] > 0
    assert 0 < measured["latency_ms"]["p50"] <= measured["latency_ms"]["p99"] < 10_000
    assert 5 < measured["rss_mb"]["child"] < 100
    assert 5 < measured["rss_mb"]["supervisor"] < 200
    stats = place.json("status", "--queue", "millgate-bench")["stats"]
    assert stats["topics"]["bench"]["waiting"] == 0
    assert stats["topics"]["bench"]["leased"] == 0
