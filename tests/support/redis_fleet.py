"""Several Redis servers that belong together: a master with replicas and Sentinels, or a Cluster. All on loopback."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import Any

import hiredis

from support.programs import Folder, Kept, free_port, need, user_for, wait_until_up
from support.redis import Admin
from support.servers import Redis
from support.wait import eventually

MASTER = "mill"


class Watched:
    """A master with replicas, and Sentinels that watch it; a failover takes some two seconds. `password`: of a Sentinel
    that is alone."""

    def __init__(self, replicas: int = 2, sentinels: int = 3, password: str = "") -> None:
        self._login = (password,) if password else ()
        self.servers = [Redis("--repl-diskless-sync-delay", "0")]
        port = self.servers[0].port
        for _ in range(replicas):
            arguments = ("--replicaof", "127.0.0.1", str(port), "--repl-diskless-sync-delay", "0")
            self.servers.append(Redis(*arguments))
        for server in self.servers[1:]:
            _linked(Admin(server.port))
        self.sentinels = [_Sentinel(port, password) for _ in range(sentinels)]
        for sentinel in self.sentinels:
            self._wait_until_seen(sentinel, replicas, sentinels - 1)

    @property
    def url(self) -> str:
        """What clients are given."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{MASTER}/0"

    @property
    def master(self) -> Admin:
        """The server that the Sentinels name now."""
        admin = Admin(self.sentinels[0].port, *self._login)
        return Admin(int(admin("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1]))

    def close(self) -> None:
        """Stop all of them."""
        for sentinel in self.sentinels:
            sentinel.close()
        for server in self.servers:
            server.close()

    def _wait_until_seen(self, sentinel: _Sentinel, replicas: int, others: int) -> None:
        def seen() -> bool:
            flat = Admin(sentinel.port, *self._login)("SENTINEL", "MASTER", MASTER)
            known = dict(zip(flat[::2], flat[1::2], strict=True))
            counts = (int(known[b"num-slaves"]), int(known[b"num-other-sentinels"]))
            return counts == (replicas, others)

        eventually(seen, timeout=30)


class _Sentinel:
    def __init__(self, master: int, password: str) -> None:
        user = user_for("redis")
        self._folder = Folder(user)
        self.port = free_port()
        config = self._folder.path / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self._folder.path}\n"
            f"sentinel monitor {MASTER} 127.0.0.1 {master} 2\n"
            f"sentinel down-after-milliseconds {MASTER} 1000\n"
            f"sentinel failover-timeout {MASTER} 5000\n"
            + (f"requirepass {password}\n" if password else "")
        )
        self._folder.own(config)
        program = need("redis-server", [], ["redis-server"])
        self._kept = Kept(
            [str(program), str(config), "--sentinel"],
            stop=signal.SIGTERM,
            user=user,
            log=self._folder.path / "server.log",
        )
        wait_until_up(self._kept, self.port)

    def close(self) -> None:
        self._kept.stop()
        self._folder.remove()


class Cluster:
    """Masters that share the slots, each with one replica where asked."""

    def __init__(self, masters: int = 3, replicas: bool = False) -> None:
        self.nodes = [_node() for _ in range(masters * (2 if replicas else 1))]
        self.admins = [Admin(server.port) for server, _ in self.nodes]
        first = self.nodes[0]
        for number, (admin, (_, bus)) in enumerate(zip(self.admins, self.nodes, strict=True)):
            admin("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                self.admins[0]("CLUSTER", "MEET", "127.0.0.1", admin.port, bus)
            if number < masters:
                low, high = 16384 * number // masters, 16384 * (number + 1) // masters - 1
                admin("CLUSTER", "ADDSLOTSRANGE", low, high)
        assert first, "there is a node"
        for admin in self.admins:
            _meet(admin, len(self.nodes))
        if replicas:
            for number, admin in enumerate(self.admins[masters:]):
                admin("CLUSTER", "REPLICATE", self.id_of(self.admins[number]))
                _linked(admin)
        for admin in self.admins:
            _serves(admin)

    @property
    def url(self) -> str:
        """What clients are given: two of the nodes."""
        hosts = ",".join(f"127.0.0.1:{admin.port}" for admin in self.admins[:2])
        return f"redis://{hosts}/0?cluster=1"

    def slot_of(self, queue: str) -> int:
        """The slot of a queue's keys."""
        return int(self.admins[0]("CLUSTER", "KEYSLOT", f"mg:{{{queue}}}:"))

    def owner_of(self, slot: int) -> Admin:
        """The master of a slot."""
        for low, high, master, *_ in self._slots():
            if low <= slot <= high:
                return next(admin for admin in self.admins if admin.port == master[1])
        raise AssertionError(f"nobody has slot {slot}")

    def move(self, slot: int, to: Admin) -> None:
        """Move a slot to another master, key by key, while clients use it."""
        source = self.owner_of(slot)
        to("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))
        while keys := source("CLUSTER", "GETKEYSINSLOT", slot, 3):
            source("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
        for admin in (to, source, *self.admins):
            with suppress(hiredis.ReplyError):  # a replica may not
                admin("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(to))

    @staticmethod
    def id_of(admin: Admin) -> str:
        """A node's name in the Cluster."""
        return str(admin("CLUSTER", "MYID").decode())

    def close(self) -> None:
        """Stop all of them."""
        for server, _ in self.nodes:
            server.close()

    def _slots(self) -> list[Any]:
        for admin in self.admins:
            with suppress(OSError):
                return list(admin("CLUSTER", "SLOTS"))
        raise AssertionError("no node answers")


def _node() -> tuple[Redis, int]:
    bus = free_port()
    arguments = (
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        str(bus),
        "--cluster-node-timeout",
        "1500",
    )
    return Redis(*arguments, "--repl-diskless-sync-delay", "0"), bus


def _linked(replica: Admin) -> None:
    eventually(lambda: replica.info("master_link_status") == "up", timeout=30)


def _serves(node: Admin) -> None:
    eventually(lambda: b"cluster_state:ok" in node("CLUSTER", "INFO"), timeout=30)


def _meet(node: Admin, count: int) -> None:
    def met() -> bool:
        lines = node("CLUSTER", "NODES").decode().splitlines()
        return len(lines) == count and not any("handshake" in line for line in lines)

    eventually(met, timeout=30)
