"""`millgate brokerd` on RabbitMQ as pods run it: a mounted URL, probes, one that serves and one that stands by."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from millgate.brokers.base import State
from support import servers
from support.builders import a_message
from support.rabbitmq import fresh_queue, open_queue
from support.servers import free_port
from support.wait import eventually


class Pod:
    """One brokerd, and what it answers."""

    def __init__(self, queue: str, file: Path) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "millgate.cli", "brokerd", "--broker-file", str(file)]
        command += ["--queue", queue, "--metrics", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def page(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return f"{answer.status} {answer.read().decode()}"
        except urllib.error.HTTPError as error:
            with error:
                return f"{error.code} {error.read().decode()}"
        except OSError as error:
            return f"0 {error}"

    def stands(self, standing: str) -> bool:
        status = self.page("/status")
        return status.startswith("200") and json.loads(status[4:])["standing"] == standing

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(20)


@pytest.fixture
def queue() -> str:
    return fresh_queue()


@pytest.fixture
def pods(queue: str, tmp_path: Path) -> Iterator[list[Pod]]:
    file = tmp_path / "uri"
    file.write_text(servers.rabbitmq().url + "\n")
    made = [Pod(queue, file)]
    try:
        eventually(lambda: made[0].stands("serving"), 30, every=0.1)
        made.append(Pod(queue, file))
        yield made
    finally:
        for pod in made:
            pod.close()


def test_the_one_that_stands_by_is_ready_and_takes_over_what_was_accepted(
    queue: str, pods: list[Pod]
) -> None:
    first, second = pods
    eventually(lambda: second.stands("waiting"), 30, every=0.1)
    assert first.page("/readyz").startswith("200")
    assert second.page("/readyz").startswith("200")
    broker = open_queue(queue)
    try:
        broker.setup()
        broker.publish([a_message(id="kept")])
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(20) == 0
        eventually(lambda: second.stands("serving"), 30, every=0.1)
        assert 'millgate_brokerd_serving{queue="' + queue + '"} 1' in second.page("/metrics")
        [found] = broker.peek("default", State.WAITING)
        assert found.id == "kept"
    finally:
        broker.close()


def test_one_without_a_server_is_alive_and_not_ready(queue: str, tmp_path: Path) -> None:
    file = tmp_path / "uri"
    file.write_text("amqp://guest:guest@127.0.0.1:1/")
    pod = Pod(queue, file)
    try:
        eventually(lambda: pod.page("/livez").startswith("200"), 20, every=0.1)
        assert pod.page("/readyz").startswith("503 no connection to RabbitMQ yet")
    finally:
        pod.close()
