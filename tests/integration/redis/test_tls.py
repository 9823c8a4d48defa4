"""TLS that is asked for is verified: chain and host name, unless the URL itself says not to."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from millgate.brokers.redis import RedisBroker
from millgate.brokers.redis.url import parse
from millgate.clock import SystemClock
from millgate.errors import BrokerUnavailable, TLSFailed
from support.programs import free_port
from support.redis import open_queue
from support.servers import Redis

_EC = ("-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ours.crt` signed the server's certificate (for 127.0.0.1), `other.crt` did not."""
    made = tmp_path_factory.mktemp("tls")
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # Python 3.13 asks for it
    for name in ("ours", "other"):
        files = ("-keyout", made / f"{name}.key", "-out", made / f"{name}.crt")
        _openssl(
            "req",
            "-x509",
            "-newkey",
            "ec",
            *_EC,
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            *usage,
            *files,
        )
    (made / "names").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    files = ("-keyout", made / "server.key", "-out", made / "server.csr")
    _openssl("req", "-newkey", "ec", *_EC, "-subj", "/CN=redis", *files)
    signer = (
        "-CA",
        made / "ours.crt",
        "-CAkey",
        made / "ours.key",
        "-CAcreateserial",
        "-days",
        "2",
    )
    request = ("-in", made / "server.csr", "-extfile", made / "names", "-out", made / "server.crt")
    _openssl("x509", "-req", *request, *signer)
    return made


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that speaks TLS on a port of its own."""
    readable = Path(shutil.copytree(folder, f"{folder}-server"))
    for path in (readable, *readable.iterdir()):
        path.chmod(0o755)
    for parent in readable.parents:
        if parent.name.startswith(("pytest", "popen-")):
            parent.chmod(0o755)
    port = free_port()
    files = [
        part
        for name, file in (
            ("cert-file", "server.crt"),
            ("key-file", "server.key"),
            ("ca-cert-file", "ours.crt"),
        )
        for part in (f"--tls-{name}", str(readable / file))
    ]
    server = Redis("--tls-port", str(port), *files, "--tls-auth-clients", "no")
    yield f"rediss://127.0.0.1:{port}/0"
    server.close()


def _setup(url: str, environ: dict[str, str] | None = None) -> None:
    broker = RedisBroker(parse(url, "tls", environ or {}), 3.0, SystemClock())
    try:
        broker.setup()
    finally:
        broker.close()


def test_a_server_of_the_right_authority_is_trusted(url: str, folder: Path) -> None:
    _setup(f"{url}?ca={folder / 'ours.crt'}")
    _setup(url, {"SSL_CERT_FILE": str(folder / "ours.crt")})


def test_a_server_of_another_authority_is_refused(url: str, folder: Path) -> None:
    with pytest.raises(TLSFailed):
        _setup(f"{url}?ca={folder / 'other.crt'}")
    with pytest.raises(TLSFailed):
        _setup(url)  # the machine's own authorities


def test_a_certificate_for_another_name_is_refused(url: str, folder: Path) -> None:
    with pytest.raises(TLSFailed):
        _setup(f"{url.replace('127.0.0.1', 'localhost')}?ca={folder / 'ours.crt'}")


def test_insecure_is_the_only_way_around(url: str) -> None:
    _setup(f"{url}#insecure")


def test_a_server_without_tls_is_refused_when_tls_is_asked_for(folder: Path) -> None:
    from support import servers

    plain = servers.redis().url.replace("redis://", "rediss://")
    with pytest.raises((TLSFailed, BrokerUnavailable)):
        open_queue("tls", f"{plain}?ca={folder / 'ours.crt'}", 2.0).setup()
