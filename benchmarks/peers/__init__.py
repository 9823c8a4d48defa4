"""The peers: each in a virtual environment of its own outside the repository, doing the same on the same server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

_APPS = Path(__file__).parent / "apps"
_TIMEOUT = 120.0


@dataclass(frozen=True)
class Peer:
    """Another task queue. `app` is run by its own Python: `enqueue URL N`, `worker URL CHILDREN`.

    Its worker appends one byte to $COUNTER for each task, as ours does; `processes` says whether two workers are
    started for two children, or one that is told the number.
    """

    name: str
    broker: str
    requirements: tuple[str, ...]
    app: str
    processes: bool = True
    arguments: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        """Its environment."""
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return (
            Path(cache)
            / "millgate"
            / "peers"
            / f"{self.broker}-{Path(self.app).stem}-{sys.version_info[1]}"
        )

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.home / "bin" / "python"

    def install(self) -> str | None:
        """Make its environment; answers why that is impossible, or None."""
        mark = self.home / "installed"
        if mark.exists() and mark.read_text() == repr(self.requirements):
            return None
        venv.create(self.home, with_pip=True, clear=True)
        done = subprocess.run(
            [
                self.python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *self.requirements,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed"
        mark.write_text(repr(self.requirements))
        return None

    def drain(self, url: str, tasks: int, children: int) -> float:
        """Tasks a second, from the first that ran to the last."""
        with tempfile.TemporaryDirectory(prefix="mg-peer-") as name:
            counter = Path(name) / "counter"
            environ = {
                **os.environ,
                "COUNTER": str(counter),
                "TASKS": str(tasks),
                "PYTHONPATH": str(_APPS),
            }
            self._run(environ, "enqueue", url, str(tasks))
            counter.unlink(missing_ok=True)
            count = children if self.processes else 1
            started = [
                self._start(environ, Path(name), "worker", url, str(children)) for _ in range(count)
            ]
            try:
                return _watch(counter, tasks, started, Path(name) / "log")
            finally:
                for process in started:
                    _stop(process)

    def _command(self, *arguments: str) -> list[str]:
        return [str(self.python), str(_APPS / self.app), *arguments, *self.arguments]

    def _run(self, environ: dict[str, str], *arguments: str) -> None:
        done = subprocess.run(
            self._command(*arguments), env=environ, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{self.name}: {done.stderr[-1500:]}")

    def _start(
        self, environ: dict[str, str], folder: Path, *arguments: str
    ) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                self._command(*arguments),
                env=environ,
                cwd=_APPS,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _watch(counter: Path, tasks: int, started: list[subprocess.Popen[bytes]], log: Path) -> float:
    first: tuple[float, int] | None = None
    end = time.monotonic() + _TIMEOUT
    while True:
        size = counter.stat().st_size if counter.exists() else 0
        now = time.monotonic()
        if first is None and size > 0:
            first = (now, size)
        if first is not None and (size >= tasks or now > end):
            # a peer that is not through after two minutes is measured by what it did until then
            return (size - first[1]) / max(now - first[0], 1e-9)
        if now > end or any(process.poll() is not None for process in started):
            raise SystemExit(f"the peer's worker does not run: {log.read_text()[-1500:]}")
        time.sleep(0.005)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a worker and what it started: they share a session of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    process.wait(5)


PEERS = (
    Peer(
        "procrastinate",
        "postgres",
        ("procrastinate>=3", "psycopg[binary]>=3.2"),
        "procrastinate_app.py",
        arguments=("10",),
    ),
    Peer("pgqueuer", "postgres", ("pgqueuer", "asyncpg"), "pgqueuer_app.py", arguments=("10",)),
    Peer(
        "pgqueuer-batch-100",
        "postgres",
        ("pgqueuer", "asyncpg"),
        "pgqueuer_app.py",
        arguments=("100",),
    ),
    Peer("tarsk", "postgres", ("tarsk-postgres==0.2.1",), "tarsk_app.py", processes=False),
    Peer("tarsk", "redis", ("tarsk-redis==0.2.1",), "tarsk_app.py", processes=False),
    Peer("celery", "redis", ("celery[redis]",), "celery_app.py", processes=False),
    Peer("dramatiq", "redis", ("dramatiq[redis]",), "dramatiq_app.py", processes=False),
    Peer("taskiq", "redis", ("taskiq", "taskiq-redis"), "taskiq_app.py", processes=False),
    Peer("tarsk", "rabbitmq", ("tarsk-amqp==0.2.1",), "tarsk_app.py", processes=False),
    Peer("celery", "rabbitmq", ("celery",), "celery_app.py", processes=False),
    Peer("dramatiq", "rabbitmq", ("dramatiq[rabbitmq]",), "dramatiq_app.py", processes=False),
    Peer(
        "fastpluggy",
        "local",
        ("fastpluggy", "fastpluggy-tasks-worker"),
        "fastpluggy_app.py",
        processes=False,
    ),
)
