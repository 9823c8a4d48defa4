"""brokerd as a command and as a pod: TCP, a mounted key, TLS, signals, exit codes."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from millgate.brokers import open_broker
from millgate.brokers.base import Ask, State
from millgate.errors import BrokerError, TLSFailed
from millgate.settlement import Ack
from support.builders import a_message, a_worker, an_info
from support.wait import eventually

KEY = "0123456789abcdef0123456789abcdef"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def brokerd(*flags: str, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "millgate.cli", "brokerd", *flags],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        ended(process)


def ended(process: subprocess.Popen[str]) -> str:
    """What it has said, once it has ended."""
    assert process.stderr is not None
    said = "" if process.stderr.closed else process.stderr.read()
    process.stderr.close()
    process.wait(20)
    return said


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    path.chmod(0o444)  # as a mounted Secret is
    return path


def answers(url: str) -> bool:
    broker = open_broker(url, deadline=1)
    try:
        return broker.server().kind == "local"
    finally:
        broker.close()


def test_it_serves_over_tcp_with_a_mounted_key_and_ends_with_a_snapshot(
    tmp_path: Path, key: Path
) -> None:
    port = free_port()
    url = f"local://127.0.0.1:{port}?key_file={key}"
    flags = ("--listen", f"0.0.0.0:{port}", "--key-file", str(key), "--data", str(tmp_path / "d"))
    with brokerd(*flags) as process:
        eventually(lambda: answers(url))
        with socket.create_connection(("127.0.0.1", port)):
            pass  # a liveness probe
        broker = open_broker(url)
        broker.setup()
        server = broker.server()
        assert server.endpoint == f"local://127.0.0.1:{port}"
        assert server.detail["pid"] == process.pid
        assert server.detail["starter"] is None
        broker.publish([a_message(id="m")])
        assert KEY not in repr(server)
        process.send_signal(signal.SIGTERM)
        said = ended(process)
        assert process.returncode == 0
        lines = [json.loads(line) for line in said.splitlines()]
        assert "serving" in lines[0]["event"]
        assert KEY not in said
    assert list((tmp_path / "d").glob("snapshot-*"))
    with brokerd(*flags):
        assert broker.states(["m"])[0].state is State.WAITING
        broker.close()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--key-file", "/nowhere/key"], "/nowhere/key"),
        (["--listen", "nonsense:port"], "nonsense"),
        (["--tls-key", "x"], "--tls-cert"),
        (["--data", "/proc/nothing"], "--journal off"),
    ],
)
def test_what_it_cannot_do_is_one_line_and_an_exit_code(
    tmp_path: Path, key: Path, flags: list[str], complaint: str
) -> None:
    with brokerd(
        *("--listen", str(tmp_path / "s"), "--key-file", str(key), "--data", str(tmp_path / "d")),
        *flags,
    ) as process:
        said = ended(process)
        assert process.returncode in (2, 4)
        assert complaint in said
        assert "Traceback" not in said


def test_two_on_one_address_cannot_be(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLGATE_PROBE_TIMEOUT", "300ms")  # its patience too
    path = tmp_path / "s"
    common = ("--listen", str(path), "--key-file", str(key))
    with brokerd(*common, "--data", str(tmp_path / "one")):
        eventually(lambda: answers(f"local://{path}?key_file={key}"))
        with brokerd(*common, "--data", str(tmp_path / "two")) as second:
            said = ended(second)
            assert second.returncode == 4
            assert "listens at" in said
        assert answers(f"local://{path}?key_file={key}")


def test_it_ends_when_its_parent_does(tmp_path: Path, key: Path) -> None:
    path = tmp_path / "s"
    command = f"{sys.executable} -m millgate.cli brokerd --listen {path} --key-file {key}"
    script = f"{command} --journal off --die-with-parent & sleep 60"
    shell = subprocess.Popen(["sh", "-c", script], stdout=subprocess.DEVNULL)
    eventually(lambda: answers(f"local://{path}?key_file={key}"))
    shell.kill()
    shell.wait()
    eventually(lambda: not path.exists())


def test_a_worker_notices_nothing_of_a_planned_restart(tmp_path: Path, key: Path) -> None:
    path = tmp_path / "s"
    flags = ("--listen", str(path), "--key-file", str(key), "--data", str(tmp_path / "d"))
    broker = open_broker(f"local://{path}?key_file={key}")
    worker = a_worker()
    with brokerd(*flags) as process:
        broker.register(worker, an_info())
        broker.publish([a_message(id="m")])
        claim = broker.claim(worker, Ask()).claims[0]
        process.send_signal(signal.SIGTERM)
        ended(process)
    with brokerd(*flags):
        assert broker.claim(worker, Ask(), [Ack(claim.ref)]).stale == ()
        assert broker.states(["m"])[0].state is State.SUCCEEDED
        broker.close()


def certificate(folder: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key in the same file."""
    openssl = shutil.which("openssl")
    assert openssl, "install openssl"
    path = folder / "tls.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=broker", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    return path


def test_tls_is_verified_unless_that_is_given_up_by_name(tmp_path: Path, key: Path) -> None:
    port = free_port()
    pem = certificate(tmp_path)
    place = f"127.0.0.1:{port}"
    with brokerd(
        *("--listen", place, "--key-file", str(key), "--journal", "off", "--tls-cert", str(pem))
    ):
        good = f"local://{place}?key_file={key}&ca={tmp_path / 'cert.pem'}"
        eventually(lambda: answers(good))
        broker = open_broker(good)
        worker = a_worker()
        broker.register(worker, an_info())
        broker.publish([a_message(id=f"m{at}", body=b"x" * 200_000) for at in range(20)])
        claims = broker.claim(worker, Ask(n=20)).claims
        assert [len(claim.message().body) for claim in claims] == [200_000] * 20
        broker.close()
        assert answers(f"local://{place}?key_file={key}&tls=on#insecure")
        unknown_authority = f"local://{place}?key_file={key}&tls=on"
        wrong_name = f"local://localhost:{port}?key_file={key}&ca={tmp_path / 'cert.pem'}"
        for url in (unknown_authority, wrong_name):
            with pytest.raises(TLSFailed, match="TLS with"):
                answers(url)
        before = time.monotonic()
        with pytest.raises(BrokerError):
            answers(f"local://{place}?key_file={key}")  # plain, to a port that wants TLS
        assert time.monotonic() - before < 8
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
            plain.settimeout(10)
            with suppress(ConnectionResetError):
                while plain.recv(1000):
                    pass
        assert answers(good)
