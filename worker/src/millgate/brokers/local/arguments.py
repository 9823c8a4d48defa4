"""The flags of brokerd, and what they mean: one reading for the command line and for a start by `setup`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from millgate.brokers.local import address
from millgate.brokers.local.brokerd import Brokerd
from millgate.brokers.served.folders import runtime_folder
from millgate.errors import InvalidSettings


def add(parser: argparse._ActionsContainer) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--listen",
        metavar="PATH|HOST:PORT",
        help="where to listen (default: this user's socket on this host)",
    )
    parser.add_argument(
        "--key-file", metavar="FILE", help="the key that clients must have (default: this user's)"
    )
    parser.add_argument("--data", metavar="DIR", help="where journal and snapshots are kept")
    parser.add_argument(
        "--journal",
        choices=("on", "off"),
        default="on",
        help="off: keep nothing over a restart (default: on)",
    )
    parser.add_argument(
        "--die-with-parent",
        action="store_true",
        help="end when the process that started this one ends",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain for TLS on TCP")
    parser.add_argument(
        "--tls-key", metavar="FILE", help="its private key (default: in the same file)"
    )


def used(args: argparse.Namespace) -> list[str]:
    """Those of the flags that were used."""
    named = {
        "--listen": args.listen,
        "--key-file": args.key_file,
        "--data": args.data,
        "--journal": args.journal == "off",
        "--die-with-parent": args.die_with_parent,
        "--tls-cert": args.tls_cert,
        "--tls-key": args.tls_key,
    }
    return [flag for flag, value in named.items() if value]


def take(args: argparse.Namespace, url: str, environ: Mapping[str, str]) -> None:
    """Let a `local://` URL say what no flag does, so that its clients find the broker. Raises InvalidSettings."""
    said = address.parse(url, environ)
    args.listen = str(said.place)
    if not said.private_key:
        args.key_file = args.key_file or str(said.key_file)
    args.data = args.data or str(said.data)
    args.journal = args.journal if said.journal else "off"
    args.die_with_parent = args.die_with_parent or said.die_with_parent


def read(
    given: argparse.Namespace, environ: Mapping[str, str], starter: int | None = None
) -> Brokerd:
    """What the flags ask for. Raises InvalidSettings."""
    place = address.Place.parse(given.listen) if given.listen else address.default_place(environ)
    if given.tls_cert and place.path is not None:
        raise InvalidSettings("--tls-cert: TLS is for host:port, a socket's path needs none")
    if given.tls_key and not given.tls_cert:
        raise InvalidSettings("--tls-key: needs --tls-cert")
    if starter is None and given.die_with_parent:
        starter = os.getppid()
    named = given.key_file or environ.get("MILLGATE_LOCAL_KEY_FILE", "")
    data = Path(given.data) if given.data else address.data_folder(place, environ)
    return Brokerd(
        place=place,
        key_file=Path(named) if named else runtime_folder(environ) / "key",
        private_key=not named,
        data=data.absolute() if given.journal == "on" else None,
        starter=starter,
        die_with_starter=given.die_with_parent,
        certificate=Path(given.tls_cert) if given.tls_cert else None,
        certificate_key=Path(given.tls_key) if given.tls_key else None,
        hello_timeout=address.probe_timeout(environ),
    )
