"""/livez, /readyz, /metrics and /status over a few lines of HTTP: a whole server library would cost a megabyte."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from millgate.errors import InvalidSettings
from millgate.frozen import dataclass

_TIMEOUT: Final = 3.0  # seconds that one client may take
_AGAIN: Final = 0.1  # seconds after a client that could not be let in
_MOST: Final = 16  # clients at once; a probe must not wait behind a slow one
_REQUEST: Final = 8192
_PHRASES: Final = {
    200: "OK",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Answers:
    """Where the answers come from; each is called in a thread of the server."""

    alive: Callable[[], str | None]  # what is wrong, None: nothing
    ready: Callable[[], str | None]
    metrics: Callable[[], str]
    status: Callable[[], dict[str, Any]]


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ":8080", "127.0.0.1:8080", "[::1]:8080" or "8080". Raises InvalidSettings."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InvalidSettings(
            f"--metrics: {text!r} is no address; write it like :8080 or 127.0.0.1:8080"
        )
    return host.strip("[]"), int(port)


class Health:
    """Listens from its construction on; a port that is taken is an error there, never a silent absence."""

    def __init__(self, address: str, answers: Answers) -> None:
        """Raises InvalidSettings when the address cannot be listened on."""
        host, port = parse_address(address)
        self._answers = answers
        self._seats = threading.Semaphore(_MOST)
        self._closed = threading.Event()
        family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
        try:
            self._listener = _listen(family, host, port)
        except OSError as error:
            raise InvalidSettings(
                f"--metrics: cannot listen on {address}: {error.strerror}"
            ) from error
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._closed.wait(_AGAIN):
                    return
                continue  # no descriptor left, or the client has gone: the next probe may find better
            self._seats.acquire()
            try:
                threading.Thread(
                    target=self._serve, args=(client,), name="http", daemon=True
                ).start()
            except RuntimeError:  # as many as there may be: tasks have threads and processes too
                self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                end = time.monotonic() + _TIMEOUT
                request = b""
                while b"\r\n\r\n" not in request and len(request) < _REQUEST:
                    client.settimeout(max(0.001, end - time.monotonic()))
                    part = client.recv(_REQUEST)
                    if not part:
                        return
                    request += part
                client.sendall(self.answer(request))
        except OSError:
            return  # it hung up, or was too slow
        finally:
            self._seats.release()

    def answer(self, request: bytes) -> bytes:
        """The response to one request."""
        method, _, rest = request.partition(b" ")
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0].decode("ascii", "replace")
        if method not in (b"GET", b"HEAD"):
            return _response(405, "only GET\n")
        status, body, kind = self._find(path)
        return _response(status, body, kind, head=method == b"HEAD")

    def _find(self, path: str) -> tuple[int, str, str]:
        plain = "text/plain; charset=utf-8"
        match path:
            case "/livez":
                return *_verdict(self._answers.alive()), plain
            case "/readyz":
                return *_verdict(self._answers.ready()), plain
            case "/metrics":
                return 200, self._answers.metrics(), "text/plain; version=0.0.4; charset=utf-8"
            case "/status":
                body = json.dumps(self._answers.status(), default=str, indent=2) + "\n"
                return 200, body, "application/json"
        return 404, "see /livez, /readyz, /metrics and /status\n", plain


def _listen(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    if not host:
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except (OSError, ValueError):
            return socket.create_server(("", port), family=socket.AF_INET)
    return socket.create_server((host, port), family=family)


def _verdict(problem: str | None) -> tuple[int, str]:
    return (200, "ok\n") if problem is None else (503, problem + "\n")


def _response(status: int, body: str, kind: str = "text/plain", *, head: bool = False) -> bytes:
    data = body.encode()
    lines = (
        f"HTTP/1.1 {status} {_PHRASES[status]}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(data)}",
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + (b"" if head else data)
