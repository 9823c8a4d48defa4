"""A real `millgate worker` for tests: started on a broker, asked over HTTP, ended whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millgate.runtime.processes import children_of, tree_of
from support.programs import free_port
from support.wait import eventually

TESTS = Path(__file__).parents[1]


class WorkerProcess:
    """One worker: its guardian is `process`."""

    def __init__(
        self,
        folder: Path,
        flags: Mapping[str, object],
        cwd: Path = TESTS,
        name: str = "worker",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`environ` is added to this process's."""
        self.port = free_port()
        self.log_file = folder / f"{name}.log"
        self.flags: dict[str, object] = {
            "metrics": f"127.0.0.1:{self.port}",
            "log-format": "json",
            "name": name,
            **flags,
        }
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self._program()],
                cwd=cwd,
                env={**os.environ, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _program(self) -> list[str]:
        given = {key: value for key, value in self.flags.items() if value is not None}
        words = [f"--{key}={value}" for key, value in given.items() if value is not True]
        words += [f"--{key}" for key, value in given.items() if value is True]
        return ["millgate.cli", "worker", *words]

    # --- asking ----------------------------------------------------------------------------------

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of one page."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def status(self) -> dict[str, Any]:
        """What /status says."""
        found: dict[str, Any] = json.loads(self.get("/status")[1])
        return found

    def until_ready(self) -> WorkerProcess:
        """Wait until it works."""
        eventually(lambda: self.get("/readyz")[0] == 200, timeout=20)
        return self

    def log(self) -> list[dict[str, Any]]:
        """Its log so far, the lines that are no JSON as {"raw": text}."""
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return [json.loads(line) if line.startswith("{") else {"raw": line} for line in lines]

    def events(self, event: str) -> list[dict[str, Any]]:
        """Log lines of one event."""
        return [line for line in self.log() if line.get("event") == event]

    def raw(self) -> str:
        """What it wrote that is no log line: errors for people."""
        return "\n".join(line["raw"] for line in self.log() if "raw" in line)

    # --- its processes ---------------------------------------------------------------------------

    @property
    def guardian(self) -> int:
        """The first process."""
        return self.process.pid

    @property
    def supervisor(self) -> int:
        """The guardian's only child."""
        [pid] = children_of(self.guardian)
        return pid

    @property
    def children(self) -> list[int]:
        """Processes that run tasks."""
        return children_of(self.supervisor)

    def tree(self) -> list[int]:
        """Every process of it, whatever tasks have left included."""
        return tree_of(self.guardian)

    # --- its end ---------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Send the guardian a signal."""
        self.process.send_signal(number)

    def stop(self, timeout: float = 20.0) -> int:
        """SIGTERM; answers the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def wait(self, timeout: float = 20.0) -> int:
        """Until it ends by itself; answers the exit code."""
        return self.process.wait(timeout)

    def end(self) -> None:
        """Whatever its state, nothing of it is left."""
        if self.process.poll() is None:
            for pid in self.tree():
                for number in (signal.SIGKILL, signal.SIGCONT):
                    try:
                        os.kill(pid, number)
                    except ProcessLookupError:
                        break
        self.process.wait(10)
