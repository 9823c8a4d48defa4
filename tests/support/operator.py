"""The operator as a process of its own against a real API server, and questions to ask about what it did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from node.cluster import Cluster
from support.servers import free_port
from support.wait import eventually

ROOT = Path(__file__).parents[2]


def define(cluster: Cluster) -> None:
    """Let the API server serve TaskQueue and Topic."""
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        cluster.kubectl("apply", "-f", path)
    # kubectl fails on a definition that has no status yet
    established = ("wait", "--for=condition=Established", "crd", "--all", "--timeout=20s")
    eventually(lambda: cluster.kubectl(*established), 20, every=0.2)


class Operator:
    """`python -m millgate_operator` with settings of its own; gone when closed."""

    def __init__(self, kubeconfig: Path, log: Path, **settings: str) -> None:
        self.port = free_port()
        self.log = log
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(log.parent),
            "KUBECONFIG": str(kubeconfig),
            "MILLGATE_OPERATOR_LISTEN": f"127.0.0.1:{self.port}",
            "MILLGATE_OPERATOR_LOG_FORMAT": "text",
            **{f"MILLGATE_OPERATOR_{name.upper()}": value for name, value in settings.items()},
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Operator:
        """Start it; returns at once."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "millgate_operator"],
                env=self._environment,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
            )
        return self

    def leads(self) -> bool:
        """Whether it has become the leader."""
        return "millgate_operator_leader 1" in self.page("/metrics")

    def page(self, path: str) -> str:
        """What it answers on a path, the status before it."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return f"{answer.status} {answer.read().decode()}"
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode()}"

    def number(self, series: str) -> float:
        """The value of one series of its metrics; 0 when it is not there."""
        for line in self.page("/metrics").splitlines():
            if line.startswith(series + " "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def text(self) -> str:
        """What it logged."""
        return self.log.read_text()

    def wait(self, timeout: float = 20.0) -> int:
        """Wait for its end; answers the exit code."""
        assert self.process is not None
        return self.process.wait(timeout)

    def close(self) -> None:
        """End it, the hard way if it must be."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)
            raise


class Place:
    """One namespace, and what a test asks of it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self.cluster.apply(*objects, namespace=self.namespace)

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        return self.cluster.get(kind, name, self.namespace)

    def there(self, kind: str, name: str, within: float = 10.0) -> dict[str, Any]:
        """The object, once it is there."""
        return eventually(lambda: self.get(kind, name), within, every=0.1)  # type: ignore[return-value]

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *args, stdin=stdin)

    def patch(self, kind: str, name: str, patch: Mapping[str, Any], *args: str) -> None:
        self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch), *args)

    def secret(self, name: str, **values: str) -> None:
        """Create or change a Secret."""
        head = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        self.apply(head | {"stringData": values})

    def condition(self, kind: str, name: str, aspect: str) -> tuple[str, str, str]:
        """Status, reason and message of a condition; empty texts when it is not there."""
        found = self.get(kind, name) or {}
        for one in found.get("status", {}).get("conditions", ()):
            if one["type"] == aspect:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def becomes(
        self, kind: str, name: str, aspect: str, wanted: str, within: float = 10.0
    ) -> tuple[str, float]:
        """Wait until a condition is "Status/Reason"; answers its message and how many seconds it took."""
        began = time.monotonic()

        def is_so() -> tuple[str] | None:
            status, reason, message = self.condition(kind, name, aspect)
            if f"{status}/{reason}" != wanted:
                raise AssertionError(f"{kind} {name} {aspect}: {status}/{reason} {message}")
            return (message,)

        [message] = eventually(is_so, within, every=0.1)  # type: ignore[misc]
        return message, time.monotonic() - began

    def events(self, name: str) -> list[str]:
        """The reasons of the Events about an object."""
        found = self.cluster.objects("events.events.k8s.io", self.namespace)
        return [one["reason"] for one in found if one["regarding"]["name"] == name]
