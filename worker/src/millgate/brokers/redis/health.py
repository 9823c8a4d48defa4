"""What is behind a connection: its version, its role and its memory policy, checked before anything is stored there."""

from __future__ import annotations

import re
from typing import Final

from millgate.brokers.address import Address
from millgate.brokers.redis.connection import Connection, Refused, Strange
from millgate.errors import PermissionMissing, UnsafeServer, VersionUnsupported
from millgate.frozen import dataclass

OLDEST: Final = (6, 2)


class Demoted(UnsafeServer):
    """The server is a replica; `master` is the one that it follows."""

    def __init__(self, message: str, master: Address) -> None:
        super().__init__(message)
        self.master = master


@dataclass(frozen=True, slots=True)
class Health:
    """A server that may be used."""

    version: str
    product: str  # Redis or Valkey
    mode: str  # standalone, sentinel or cluster
    persistence: str  # aof, rdb or none
    replicas: int


def check(connection: Connection, endpoint: str, until: float) -> Health:
    """Look at the server. Raises VersionUnsupported, UnsafeServer, PermissionMissing; Refused while it is loading."""
    try:
        raw = connection.run("INFO", until=until)
    except Refused as error:
        if str(error).startswith("NOPERM"):
            raise PermissionMissing(
                f"{endpoint}: the user may not; grant +info: without it an unsafe server cannot be told ({error})"
            ) from error
        raise
    if not isinstance(raw, bytes):
        raise Strange(f"INFO was answered with {type(raw).__name__}")
    info = dict(
        line.split(":", 1) for line in raw.decode("utf-8", "replace").splitlines() if ":" in line
    )
    version = info.get("redis_version", "0")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise VersionUnsupported(
            f"{endpoint} runs Redis {version}; 6.2 or newer is required, or Valkey"
        )
    if info.get("loading", "0") != "0":
        raise Refused("LOADING the server is loading its data")
    _check_policy(info, endpoint)
    if info.get("role", "master") != "master" and info.get("redis_mode") != "cluster":
        raise Demoted(
            f"{endpoint} is a read-only replica; connect to the master, for instance by redis+sentinel://",
            Address(info.get("master_host", ""), int(info.get("master_port", "0"))),
        )
    return Health(
        version=info.get("valkey_version", version),
        product="Valkey" if "valkey_version" in info else "Redis",
        mode=info.get("redis_mode", "standalone"),
        persistence="aof" if info.get("aof_enabled") == "1" else "memory or snapshots",
        replicas=int(info.get("connected_slaves", "0")),
    )


def _check_policy(info: dict[str, str], endpoint: str) -> None:
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnsafeServer(
            f"{endpoint}: maxmemory-policy is {policy}: the server would throw tasks away when it is full; "
            "set maxmemory-policy noeviction"
        )
