"""The broker's URL → where the servers are and how to speak to them. Pure: the environment is handed in."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import field
from typing import Final
from urllib.parse import unquote

from millgate.brokers import address
from millgate.brokers.address import Address
from millgate.errors import InvalidSettings
from millgate.frozen import dataclass

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_KNOWN: Final = frozenset({"ca", "cert", "key", "heartbeat", "brokerd"})
#: Variable that says the same as `?brokerd=`, for processes that are given a URL which they cannot change.
BROKERD: Final = "MILLGATE_BROKERD"
_HEARTBEAT: Final = 10
_LONGEST_HEARTBEAT: Final = 3600


@dataclass(frozen=True, slots=True)
class Target:
    """Where a queue lives."""

    addresses: tuple[Address, ...]
    vhost: str
    endpoint: str  # for people; carries no secret
    url: str = field(repr=False)  # as it was given; for a process that is started with it
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    tls: ssl.SSLContext | None = None
    #: Seconds between signs of life on each connection; a silent end is noticed after two to three of them.
    heartbeat: int = _HEARTBEAT
    #: Whether a brokerd may be started by whoever finds none.
    may_start: bool = True


def parse(url: str, environ: Mapping[str, str]) -> Target:
    """The target of an `amqp://` or `amqps://` URL.

    Several nodes of one cluster are separated by commas. The path is the virtual host, "/" when there is none. The
    query may have `heartbeat` (seconds), `brokerd=auto|never` (never: none is started from here; the variable
    MILLGATE_BROKERD says the same, and never wins), and for amqps `ca`, `cert` and `key` (files). TLS verifies unless
    the URL ends in `#insecure`. Raises InvalidSettings.
    """
    parts = address.split(url, "amqp")
    insecure = address.insecure(parts.fragment, "amqp")
    options = address.options(parts.query, _KNOWN, "amqp")
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = userinfo.partition(":")
    secure = parts.scheme == "amqps"
    return Target(
        addresses=tuple(
            address.read(host, _PORTS[parts.scheme], "amqp") for host in hosts.split(",")
        ),
        vhost=_vhost(parts.path),
        endpoint=f"{parts.scheme}://{hosts}{parts.path}",
        url=url,
        user=unquote(user) or "guest",
        password=unquote(password) if colon else "guest",
        tls=address.tls(options, environ, "amqps", verified=not insecure) if secure else None,
        heartbeat=_heartbeat(options),
        may_start=_may_start(options, environ),
    )


def _vhost(path: str) -> str:
    """What follows the first slash, and "/" where nothing does."""
    name = path.removeprefix("/")
    if "/" in name:
        raise InvalidSettings(
            f"amqp://: path {path!r}: give one virtual host, a slash in its name as %2F"
        )
    return unquote(name) or "/"


def _heartbeat(options: Mapping[str, str]) -> int:
    text = options.get("heartbeat", str(_HEARTBEAT))
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= _LONGEST_HEARTBEAT):
        raise InvalidSettings(
            f"amqp://: ?heartbeat={text}: give seconds, 1 to {_LONGEST_HEARTBEAT}"
        )
    return int(text)


def _may_start(options: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    asked, set_ = options.get("brokerd"), environ.get(BROKERD)
    for name, word in (("amqp://: ?brokerd", asked), (BROKERD, set_)):
        if word not in ("auto", "never", None):
            raise InvalidSettings(f"{name}={word}: use auto or never")
    return "never" not in (asked, set_)
