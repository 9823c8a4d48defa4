"""TLS that is asked for is verified: chain and host name, unless the URL itself says not to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millgate.brokers.postgres import PostgresBroker
from millgate.brokers.postgres.url import parse
from millgate.clock import SystemClock
from millgate.errors import TLSFailed
from support.servers import Postgres

SUPERVISOR = """
import sys
from millgate.runtime.frugal import put_off_tls
put_off_tls(sys.argv[1])
from millgate.brokers import open_broker
open_broker(sys.argv[1], queue="supervisor", deadline=5.0).setup()
assert "_ssl" not in sys.modules
print("connected")
"""


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def _authority(folder: Path, name: str) -> tuple[Path, Path]:
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(certificate))  # fmt: skip
    return key, certificate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ours.crt` signed the server's certificate (for 127.0.0.1), `other.crt` did not."""
    made = tmp_path_factory.mktemp("tls")
    key, certificate = _authority(made, "ours")
    _authority(made, "other")
    (made / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=db",
             "-keyout", str(made / "server.key"), "-out", str(made / "server.csr"))  # fmt: skip
    _openssl("x509", "-req", "-in", str(made / "server.csr"), "-CA", str(certificate), "-CAkey", str(key),
             "-CAcreateserial", "-days", "2", "-extfile", str(made / "names"),
             "-out", str(made / "server.crt"))  # fmt: skip
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Postgres]:
    made = Postgres()
    for name in ("server.key", "server.crt"):
        target = made.data / name
        shutil.copy(folder / name, target)
        made.own(target)
        target.chmod(0o600)
    made.settings["ssl"] = "on"
    made.restart()
    yield made
    made.close()


def _setup(url: str, environ: dict[str, str] | None = None) -> None:
    broker = PostgresBroker(parse(url, "tls", environ or {}), 5.0, SystemClock())
    try:
        broker.setup()
    finally:
        broker.close()


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_server_of_the_right_authority_is_trusted(
    server: Postgres, folder: Path, mode: str
) -> None:
    _setup(f"{server.url()}?sslmode={mode}&sslrootcert={folder / 'ours.crt'}")
    _setup(f"{server.url()}?sslmode={mode}", {"SSL_CERT_FILE": str(folder / "ours.crt")})


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_a_server_of_another_authority_is_refused(
    server: Postgres, folder: Path, mode: str
) -> None:
    with pytest.raises(TLSFailed):
        _setup(f"{server.url()}?sslmode={mode}&sslrootcert={folder / 'other.crt'}")
    with pytest.raises(TLSFailed):
        _setup(f"{server.url()}?sslmode={mode}")  # the machine's own bundle


def test_a_supervisor_that_has_not_imported_pythons_tls_verifies_all_the_same(
    server: Postgres, folder: Path
) -> None:
    url = f"{server.url()}?sslmode=verify-full&sslrootcert={folder}"
    assert _supervisor(f"{url}/ours.crt").stdout == "connected\n"
    assert "TLSFailed" in _supervisor(f"{url}/other.crt").stderr


def _supervisor(url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-c", SUPERVISOR, url]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_certificate_for_another_name_is_refused(server: Postgres, folder: Path) -> None:
    url = server.url().replace("127.0.0.1", "localhost")
    with pytest.raises(TLSFailed):
        _setup(f"{url}?sslmode=require&sslrootcert={folder / 'ours.crt'}")


def test_insecure_is_the_only_way_around(server: Postgres) -> None:
    _setup(f"{server.url()}?sslmode=require#insecure")


def test_a_server_without_tls_is_refused_when_tls_is_asked_for(folder: Path) -> None:
    from support import servers

    with pytest.raises(TLSFailed):
        _setup(f"{servers.postgres().url()}?sslmode=require&sslrootcert={folder / 'ours.crt'}")
