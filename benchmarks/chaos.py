"""Kills workers, restarts the server and cuts clients while tasks run, and judges the ledger at the end.

On RabbitMQ the process that serves the queue is killed and frozen as well.

    python -m benchmarks.chaos --broker postgres --minutes 10

Ends with 0 only if no accepted task was lost, none was run beside a live owner, and the broker's counts agree.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.servers import Local, Postgres, RabbitMQ, Redis, server
from millgate.app import App
from millgate.brokers import open_broker
from millgate.brokers.base import Broker, State
from millgate.errors import BrokerUnavailable, QueueFull
from millgate.queues import TopicPolicy
from millgate.retry import RetryPolicy
from millgate.runtime.processes import children_of, tree_of
from support import judge
from support.faults import FaultProxy

Harmed = Local | Postgres | RabbitMQ | Redis
QUEUE, TOPIC = "chaos", "chaos"
WORKERS = 3
KILL_EVERY, RESTART_EVERY, CUT_EVERY, REPLACE_EVERY = 2.0, 60.0, 7.0, 11.0
FROZEN = 8.0  # seconds; longer than two heartbeats of a brokerd
_OPEN = (State.WAITING, State.DELAYED, State.RUNNING)
#: More killings than a task can meet in a run, so that none is given up because of them.
POLICY = TopicPolicy(TOPIC, lease=10.0, retry=RetryPolicy(attempts=100, losses=10_000))


@dataclass
class Tally:
    """What was done to it."""

    accepted: list[str] = field(default_factory=list)
    kills: int = 0
    restarts: int = 0
    cuts: int = 0
    replaced: int = 0  # brokerds killed or frozen
    refused: int = 0  # sends that had to be repeated
    unsure: int = 0  # 1 when the fate of the last send is unknown
    deaths: dict[int, float] = field(default_factory=dict)


class Fleet:
    """Workers that are killed and started again."""

    def __init__(self, url: str, folder: Path, tally: Tally) -> None:
        self._folder, self._tally = folder, tally
        self._environ = {
            **os.environ,
            "MILLGATE_BROKER": url,
            "MILLGATE_QUEUE": QUEUE,
            "CHAOS_LEDGER": str(folder / "ledger"),
            "PYTHONPATH": str(Path(__file__).parent),
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def fill(self) -> None:
        """As many as there should be."""
        self._processes = [process for process in self._processes if process.poll() is None]
        while len(self._processes) < WORKERS:
            command = (sys.executable, "-m", "millgate.cli", "worker", "--app", "chaos_tasks:app")
            flags = ("--children", "2", "--log-format", "json", "--drain-timeout", "30s")
            with (self._folder / "log").open("ab") as log:
                self._processes.append(
                    subprocess.Popen((*command, *flags), env=self._environ, stdout=log, stderr=log)
                )

    def kill_one(self) -> None:
        """SIGKILL to a worker's guardian, its supervisor or one of its children."""
        guardian = random.choice(self._processes).pid
        supervisors = children_of(guardian)
        children = [pid for supervisor in supervisors for pid in children_of(supervisor)]
        victim = random.choice([guardian, *supervisors[:1], *children[:1]])
        tree = tree_of(victim) if victim != guardian else tree_of(guardian)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return
        now = time.time()
        for pid in tree:  # what belongs to a dead worker is ended by it or by the kernel
            self._tally.deaths.setdefault(pid, now)
        self._tally.kills += 1

    def stop(self) -> None:
        """Let all drain."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def deaths(self) -> dict[int, float]:
        """Ends of children that the workers themselves report, beside those that were caused here."""
        found = dict(self._tally.deaths)
        for line in (self._folder / "log").read_text(errors="replace").splitlines():
            if '"child ended"' in line:
                record = json.loads(line)
                moment = time.mktime(time.strptime(record["time"][:19], "%Y-%m-%dT%H:%M:%S"))
                found.setdefault(int(record["child"]), moment - time.timezone)
        return found


class Brokerds:
    """What serves a queue on RabbitMQ: two processes, of which the one that has the queue is killed or frozen."""

    def __init__(self, url: str, folder: Path, tally: Tally) -> None:
        self._environ = {**os.environ, "MILLGATE_BROKER": f"{url}?heartbeat=2"}
        self._log, self._tally = folder / "brokerd.log", tally
        self._processes: list[subprocess.Popen[bytes]] = []
        self._frozen: tuple[int, float] | None = None
        #: What workers and producers are told.
        self.url = f"{url}?brokerd=never"
        self._client = open_broker(self.url, queue=QUEUE, deadline=2.0)
        self.fill()

    def fill(self) -> None:
        """As many as there should be, none frozen for too long."""
        if self._frozen is not None and time.monotonic() > self._frozen[1]:
            self.thaw()
        self._processes = [process for process in self._processes if process.poll() is None]
        while len(self._processes) < 2:
            command = (sys.executable, "-m", "millgate.cli", "brokerd", "--queue", QUEUE)
            with self._log.open("ab") as log:
                self._processes.append(
                    subprocess.Popen(command, env=self._environ, stdout=log, stderr=log)
                )

    def replace_one(self) -> None:
        """SIGKILL or SIGSTOP to the one that serves."""
        try:
            pid = int(self._client.server().detail["pid"])
        except BrokerUnavailable:
            return
        if self._frozen is None and random.random() < 0.5:
            os.kill(pid, signal.SIGSTOP)
            self._frozen = pid, time.monotonic() + FROZEN
        else:
            os.kill(pid, signal.SIGKILL)
        self._tally.replaced += 1

    def thaw(self) -> None:
        """Let a frozen one go on."""
        if self._frozen is not None:
            os.kill(self._frozen[0], signal.SIGCONT)
            self._frozen = None

    def stop(self) -> None:
        """End both."""
        self._client.close()
        for process in self._processes:
            process.kill()
            process.wait()


def produce(app: App, tally: Tally, stopping: threading.Event) -> None:
    """Queue task after task; one whose fate is unknown is sent again under its id."""
    work = app.task(name="work", topic=TOPIC)(_work)
    number = 0
    while not stopping.is_set():
        name = f"t{number}"
        try:
            work.options(task_id=name).send(name, round(random.uniform(0.01, 0.3), 3))
        except (BrokerUnavailable, QueueFull):
            tally.refused += 1
            tally.unsure = 1
            stopping.wait(0.2)
            continue
        tally.accepted.append(name)
        tally.unsure = 0
        number += 1
        stopping.wait(0.04)


def _work(name: str, seconds: float) -> None:
    """Stands for the workers' task."""
    del name, seconds


@contextmanager
def proxied(running: Harmed, folder: Path) -> Iterator[tuple[FaultProxy, str]]:
    """A proxy before the server, and the URL through it."""
    url = running.url("chaos")
    parts = urlsplit(url)
    if parts.hostname is None:
        proxy = FaultProxy(parts.path, folder / "p.sock")
        through = parts._replace(path=str(folder / "p.sock"))
    else:
        proxy = FaultProxy((parts.hostname, parts.port or 5432))
        userinfo, at, _ = parts.netloc.rpartition("@")
        through = parts._replace(netloc=f"{userinfo}{at}127.0.0.1:{proxy.port}")
    try:
        yield proxy, through.geturl()
    finally:
        proxy.close()


def torment(
    running: Harmed,
    proxy: FaultProxy,
    fleet: Fleet,
    brokerds: Brokerds | None,
    tally: Tally,
    seconds: float,
) -> None:
    """Do harm on schedule."""
    began = time.monotonic()
    due = {"kill": KILL_EVERY, "restart": RESTART_EVERY, "cut": CUT_EVERY, "replace": REPLACE_EVERY}
    while (passed := time.monotonic() - began) < seconds:
        fleet.fill()
        if brokerds is not None:
            brokerds.fill()
        if passed >= due["replace"]:
            due["replace"] += REPLACE_EVERY
            if brokerds is not None:
                brokerds.replace_one()
        if passed >= due["kill"]:
            due["kill"] += KILL_EVERY
            fleet.kill_one()
        if passed >= due["cut"]:
            due["cut"] += CUT_EVERY
            proxy.cut(reset=random.random() < 0.5)
            tally.cuts += 1
        if passed >= due["restart"]:
            due["restart"] += RESTART_EVERY
            running.restart()
            tally.restarts += 1
        time.sleep(0.1)


def settle(broker: Broker, fleet: Fleet, seconds: float) -> bool:
    """Wait until nothing is left to do; False: something still is."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        fleet.fill()
        try:
            topic = broker.stats().topics[TOPIC]
        except BrokerUnavailable:
            continue
        if (topic.waiting, topic.delayed, topic.leased) == (0, 0, 0):
            return True
        time.sleep(0.5)
    return False


def run(running: Harmed, minutes: float, folder: Path) -> dict[str, object]:
    """One chaotic run; the figures at its end."""
    tally = Tally()
    with proxied(running, folder) as (proxy, through):
        brokerds = Brokerds(through, folder, tally) if isinstance(running, RabbitMQ) else None
        url = through if brokerds is None else brokerds.url
        broker = open_broker(url, queue=QUEUE)
        broker.setup()
        broker.configure([POLICY])
        fleet = Fleet(url, folder, tally)
        fleet.fill()
        stopping = threading.Event()
        producer = threading.Thread(target=produce, args=(App(broker), tally, stopping))
        producer.start()
        try:
            torment(running, proxy, fleet, brokerds, tally, minutes * 60)
        finally:
            stopping.set()
            producer.join()
            if brokerds is not None:
                brokerds.thaw()
            drained = settle(broker, fleet, 180)
            fleet.stop()
        dead = [letter.id for letter in broker.dead(TOPIC, 1000)]
        counted = broker.stats().topics[TOPIC]
        left = [item.id for state in _OPEN for item in broker.peek(TOPIC, state, 5)]
        broker.close()
        if brokerds is not None:
            brokerds.stop()
    lines = (folder / "ledger").read_text().splitlines()
    verdict = judge.judge(tally.accepted, dead, judge.read(lines), fleet.deaths())
    figures = asdict(verdict) | {
        "lost": len(verdict.lost),
        "beside_live_owner": len(verdict.beside),
    }
    del figures["beside"]
    stored = (counted.enqueued or 0) - len(tally.accepted)
    return {
        "minutes": minutes,
        "accepted": len(tally.accepted),
        "kills": tally.kills,
        "restarts": tally.restarts,
        "cuts": tally.cuts,
        "brokerds_replaced": tally.replaced,
        "repeated_sends": tally.refused,
        "dead": len(dead),
        "drained": drained,
        "left": left,
        "completed": counted.completed,
        # each task that was accepted was stored once, and each has ended once, as the ledger and the dead letters say
        "agrees": 0 <= stored <= tally.unsure
        and counted.failed == len(dead)
        and counted.enqueued == (counted.completed or 0) + len(dead),
        **figures,
        "examples": {"lost": verdict.lost[:5], "beside": verdict.beside[:5]},
    }


def main() -> int:
    """Run and judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument(
        "--broker", choices=("local", "postgres", "rabbitmq", "redis"), required=True
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", action="store_true", help="keep the ledger and the workers' log")
    options = parser.parse_args()
    random.seed(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="mg-chaos-"))
    with server(options.broker) as running:
        assert isinstance(running, Harmed)
        figures = run(running, options.minutes, folder)
    sound = figures["drained"] and figures["agrees"]
    good = sound and not figures["lost"] and not figures["beside_live_owner"]
    if not good or options.keep:
        print(f"the ledger and the log are in {folder}", file=sys.stderr)
    print(json.dumps({"broker": options.broker, **figures, "held": bool(good)}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
