"""The little HTTP server."""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
import urllib.request
from typing import Any

import pytest

from millgate.errors import InvalidSettings
from millgate.runtime.health import Answers, Health, parse_address


def answers(problem: str | None = None) -> Answers:
    return Answers(lambda: problem, lambda: problem, lambda: "a_metric 1\n", lambda: {"name": "w"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8080", ("", 8080)),
        ("8080", ("", 8080)),
        ("127.0.0.1:9", ("127.0.0.1", 9)),
        ("[::1]:9", ("::1", 9)),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "host", "host:", "host:port", ":70000"])
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidSettings, match=":8080"):
        parse_address(text)


def test_every_page_has_its_status_and_type() -> None:
    health = Health("127.0.0.1:0", answers())
    try:
        assert health.answer(b"GET /livez HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"version=0.0.4" in health.answer(b"GET /metrics HTTP/1.1\r\n\r\n")
        head, _, body = health.answer(b"GET /status?x=1 HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
        assert b"application/json" in head
        assert json.loads(body) == {"name": "w"}
        assert health.answer(b"HEAD /livez HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")
        assert b" 404 " in health.answer(b"GET / HTTP/1.1\r\n\r\n")
        assert b" 405 " in health.answer(b"POST /livez HTTP/1.1\r\n\r\n")
        assert b" 405 " in health.answer(b"nonsense\r\n\r\n")
    finally:
        health.close()


def test_a_problem_is_told_with_503() -> None:
    health = Health("127.0.0.1:0", answers("draining"))
    answer = health.answer(b"GET /readyz HTTP/1.1\r\n\r\n")
    health.close()
    assert b" 503 " in answer
    assert answer.endswith(b"draining\n")


def test_it_serves_over_a_socket_and_stops() -> None:
    health = Health("127.0.0.1:0", answers())
    health.start()
    with socket.create_connection(("127.0.0.1", health.port)) as client:
        client.sendall(b"GET /livez HTTP/1.0\r\n")
        client.sendall(b"\r\n")
        assert b"200 OK" in client.recv(1000)
    health.close()


def test_a_port_that_is_taken_is_an_error() -> None:
    first = Health("127.0.0.1:0", answers())
    with pytest.raises(InvalidSettings, match="cannot listen on"):
        Health(f"127.0.0.1:{first.port}", answers())
    first.close()


def ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(request)
        return client.recv(4096)


def drip(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        for _ in range(100):
            client.sendall(b"x")
            time.sleep(0.05)


def test_a_client_that_could_not_be_let_in_is_not_the_last_one() -> None:
    health = Health("127.0.0.1:0", answers())
    listener, refused = health._listener, []

    class Full:
        def accept(self) -> Any:
            if not refused:
                refused.append(True)
                raise OSError(errno.EMFILE, "no more descriptors")
            return listener.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(listener, name)

    health._listener = Full()  # type: ignore[assignment]
    health.start()
    try:
        assert ask(health.port, b"GET /livez HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 OK")
    finally:
        health.close()
    health._thread.join(10)
    assert not health._thread.is_alive()


def test_a_client_that_sends_little_by_little_has_no_more_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("millgate.runtime.health._TIMEOUT", 0.3)
    health = Health("127.0.0.1:0", answers())
    health.start()
    try:
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            drip(health.port)
    finally:
        health.close()


def test_a_probe_is_answered_also_where_no_thread_is_to_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    health = Health("127.0.0.1:0", answers())
    health.start()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def ask() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{health.port}/livez", timeout=5) as answer:
            status: int = answer.status
            return status

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert [ask(), ask()] == [200, 200]
    assert ask() == 200
    health.close()
