"""Certificates for tests of TLS: one authority that signed the server's, and one that did not."""

from __future__ import annotations

import subprocess
from pathlib import Path

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_USAGE = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")  # Python 3.13 asks for it
_DAYS = ("-days", "2")


def make(folder: Path) -> None:
    """Write `server.crt` and `server.key` (for 127.0.0.1), `ours.crt`, which signed it, and `other.crt`."""
    for name in ("ours", "other"):
        files = ("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")
        _openssl("req", "-x509", *_EC, *_DAYS, "-subj", f"/CN={name}", *_USAGE, *files)
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
    request, key = folder / "server.csr", folder / "server.key"
    _openssl("req", *_EC, "-subj", "/CN=server", "-keyout", key, "-out", request)
    signer = ("-CA", folder / "ours.crt", "-CAkey", folder / "ours.key", "-CAcreateserial", *_DAYS)
    signed = ("-in", request, "-extfile", names, "-out", folder / "server.crt")
    _openssl("x509", "-req", *signed, *signer)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
