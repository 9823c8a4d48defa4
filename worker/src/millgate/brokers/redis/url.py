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

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_TRUE: Final = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
_KNOWN: Final = frozenset(
    {"cluster", "ca", "cert", "key", "tls", "sentinel_user", "sentinel_password", "replicas"}
)


@dataclass(frozen=True, slots=True)
class Login:
    """Who we are; an empty user is the server's default user."""

    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a queue lives. `master` is the name that Sentinels know it by; empty: the addresses are the servers."""

    addresses: tuple[Address, ...]
    prefix: str
    endpoint: str  # for people; carries no secret
    login: Login = Login()
    database: int = 0
    master: str = ""
    sentinel_login: Login = Login()
    cluster: bool = False
    tls: ssl.SSLContext | None = None
    #: Replicas that must have a publish before it is answered.
    replicas: int = 0


def parse(url: str, queue: str, environ: Mapping[str, str]) -> Target:
    """The target of a `redis://`, `rediss://` or `redis+sentinel://` URL.

    Several hosts are separated by commas. The path is the database, for Sentinel the master's name and then the
    database. The query may have `cluster=1`, `replicas=N`, `ca`, `cert` and `key` (files), for Sentinel also `tls=1`,
    `sentinel_user` and `sentinel_password`. TLS verifies unless the URL ends in `#insecure`. Raises InvalidSettings.
    """
    parts = address.split(url, "redis")
    sentinel = parts.scheme == "redis+sentinel"
    insecure = address.insecure(parts.fragment, "redis")
    options = address.options(parts.query, _KNOWN, "redis")
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    port = _SENTINEL_PORT if sentinel else _PORT
    addresses = tuple(address.read(host, port, "redis") for host in hosts.split(","))
    master, database = _path(parts.path, sentinel)
    cluster = _flag(options, "cluster")
    if cluster and (database or sentinel):
        raise InvalidSettings("redis://: ?cluster=1 knows database 0 only, and no Sentinels")
    secure = parts.scheme == "rediss" or (sentinel and _flag(options, "tls"))
    return Target(
        addresses=addresses,
        prefix=f"mg:{{{queue}}}:",
        endpoint=f"{parts.scheme}://{hosts}{parts.path}",
        login=Login(unquote(user), unquote(password)),
        database=database,
        master=master,
        sentinel_login=Login(
            options.get("sentinel_user", ""), options.get("sentinel_password", "")
        ),
        cluster=cluster,
        tls=address.tls(options, environ, "rediss", verified=not insecure) if secure else None,
        replicas=_number(options.get("replicas", "0"), "?replicas"),
    )


def _flag(options: Mapping[str, str], name: str) -> bool:
    word = options.get(name, "0").lower()
    if word not in _TRUE:
        raise InvalidSettings(f"redis://: ?{name}={word}: use 1 or 0")
    return _TRUE[word]


def _number(text: str, what: str) -> int:
    if not text.isdecimal() or not text.isascii():
        raise InvalidSettings(f"redis://: {what} is {text!r}; give a number")
    return int(text)


def _path(path: str, sentinel: bool) -> tuple[str, int]:
    names = [unquote(name) for name in path.split("/") if name]
    master = ""
    if sentinel:
        if not names:
            raise InvalidSettings(
                "redis+sentinel://: name the master: redis+sentinel://host:26379/mymaster"
            )
        master = names.pop(0)
    if len(names) > 1:
        raise InvalidSettings(f"redis://: path {path!r}: give the number of a database, or nothing")
    return master, _number(names[0], "the database") if names else 0
