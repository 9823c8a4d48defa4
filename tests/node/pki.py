"""Certificates and kubeconfigs of an instance, for clients that check every extension as Python 3.13 does."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from node.command import run

DAYS = "30"
EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
LEAF = """\
basicConstraints=critical,CA:false
keyUsage=critical,digitalSignature,keyEncipherment
extendedKeyUsage=serverAuth,clientAuth
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
subjectAltName={names}
"""


def authority(folder: Path) -> None:
    """Make ca.key and ca.crt, and the key pair that signs service account tokens: sa.key and sa.pub."""
    folder.mkdir(parents=True, exist_ok=True)
    run(
        [
            *("openssl", "req", "-x509", *EC, "-days", DAYS, "-subj", "/CN=millgate-test-ca"),
            *("-addext", "basicConstraints=critical,CA:true"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", folder / "ca.key", "-out", folder / "ca.crt"),
        ]
    )
    sa_key, sa_pub = folder / "sa.key", folder / "sa.pub"
    run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", sa_key])
    run(["openssl", "ec", "-in", sa_key, "-pubout", "-out", sa_pub])


def issue(folder: Path, name: str, subject: str, names: str) -> None:
    """Make name.key and name.crt, signed by the authority in the same folder.

    names: subject alternative names as openssl writes them, such as "DNS:localhost,IP:127.0.0.1".
    """
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text(LEAF.format(names=names))
    run(
        [
            "openssl",
            "req",
            *EC,
            "-subj",
            subject,
            "-keyout",
            folder / f"{name}.key",
            "-out",
            request,
        ]
    )
    run(
        [
            *("openssl", "x509", "-req", "-days", DAYS, "-in", request, "-CAcreateserial"),
            *("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"),
            *("-extfile", extensions, "-out", folder / f"{name}.crt"),
        ]
    )


def client_kubeconfig(folder: Path, name: str, server: str) -> str:
    """A kubeconfig with the certificate of that name; self-contained, so that it can be copied anywhere."""
    user = {
        "client-certificate-data": _data(folder / f"{name}.crt"),
        "client-key-data": _data(folder / f"{name}.key"),
    }
    return _kubeconfig(_data(folder / "ca.crt"), server, user)


def token_kubeconfig(ca_data: str, server: str, token: str) -> str:
    """A kubeconfig with a service account's token; ca_data is the authority's certificate in base64."""
    return _kubeconfig(ca_data, server, {"token": token})


def _kubeconfig(ca_data: str, server: str, user: dict[str, str]) -> str:
    cluster = {"server": server, "certificate-authority-data": ca_data}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "millgate-test", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [
                {"name": "millgate-test", "context": {"cluster": "millgate-test", "user": "user"}}
            ],
            "current-context": "millgate-test",
        },
        indent=1,
    )


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
