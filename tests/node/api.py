"""A small client of an API server, for waiting: quicker than a kubectl for each question."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable
from typing import Any

from node.instance import Instance, InstanceFailed

PAUSE = 0.05  # seconds between two questions


class Api:
    """Asks the API server of an instance as its administrator."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        pki = instance.layout.pki
        self.tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self.tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def get(self, path: str) -> tuple[int, str] | None:
        """(HTTP status, text), or None when nobody answers."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.instance.layout.port, timeout=5, context=self.tls
        )
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Whether the API server says that it is ready."""
        answer = self.get("/readyz")
        return answer is not None and answer[0] == http.HTTPStatus.OK

    def read(self, path: str) -> dict[str, Any] | None:
        """The object at this path; None while there is none or nobody answers."""
        answer = self.get(path)
        if answer is None or answer[0] != http.HTTPStatus.OK:
            return None
        found: dict[str, Any] = json.loads(answer[1])
        return found

    def wait(
        self, what: str, check: Callable[[], bool], *, seconds: float, watch: tuple[str, ...]
    ) -> None:
        """Wait until check() holds; raise InstanceFailed when it does not in time or a watched component ends."""
        deadline = time.monotonic() + seconds
        while not check():
            self.instance.check(*watch)
            if time.monotonic() > deadline:
                logs = "\n".join(f"--- {name}\n{self.instance.log(name)}" for name in watch)
                raise InstanceFailed(f"{what} did not come true in {seconds:.0f} s\n{logs}")
            time.sleep(PAUSE)


def is_ready_node(node: dict[str, Any] | None) -> bool:
    """Whether a Node object says Ready."""
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
