"""/healthz /readyz /metrics on a thread of their own, so that a busy loop cannot keep them from telling the truth."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_PATIENCE: Final = 10.0  # seconds for a request to arrive; a thread waits for it
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answers:
    """What to answer: each returns a complaint, or an empty text when all is well; `metrics` returns the page."""

    healthy: Callable[[], str]
    ready: Callable[[], str]
    metrics: Callable[[], str]


def serve(listen: str, answers: Answers) -> ThreadingHTTPServer:
    """Serve on host:port until `shutdown`; answers the server, whose `server_port` is the port taken."""
    host, _, port = listen.rpartition(":")

    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._send(200, answers.metrics())
            elif self.path in ("/healthz", "/readyz"):
                wrong = answers.healthy() if self.path == "/healthz" else answers.ready()
                self._send(503 if wrong else 200, (wrong or "ok") + "\n")
            else:
                self._send(404, "there is /healthz, /readyz and /metrics\n")

        def _send(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
            """Probes are no news."""

    server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
