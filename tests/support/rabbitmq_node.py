"""One RabbitMQ node: this machine's version or Debian 13's, with an epmd of its own and every port on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from support.programs import Folder, Kept, free_port, need, user_for, wait_until_up
from support.wait import eventually

_LINES: Final = 100  # of a log that somebody may want to read
_BIN: Final = Path("/usr/lib/rabbitmq/bin")


class Programs(Protocol):
    """Where the programs of a version are."""

    def command(self, folder: Folder, program: str, *arguments: str) -> list[str]:
        """What runs one of them as the account that owns the folder, which it sees under the same path."""

    #: The account that `command` has to be run as; empty: ours, it changes by itself.
    user: str


class Installed:
    """The version of this machine's packages."""

    def __init__(self) -> None:
        self.user = user_for("rabbitmq")
        need("rabbitmq-server", [_BIN], ["rabbitmq-server"])

    def command(self, folder: Folder, program: str, *arguments: str) -> list[str]:
        """As it is."""
        return [str(_BIN / program), *arguments]


class RabbitMQ:
    """One node. `config` is lines of rabbitmq.conf, `erlang` more arguments of its virtual machine; `cluster` is
    another node whose epmd and cookie it shares."""

    def __init__(
        self,
        config: str = "",
        *,
        programs: Programs | None = None,
        cluster: RabbitMQ | None = None,
        erlang: str = "",
    ) -> None:
        self._programs = programs or Installed()
        self._account = user_for("rabbitmq")
        self._folder = Folder(self._account)
        self.home = self._folder.path
        self.port, self._distribution = free_port(), free_port()
        self.name = f"millgate{self.port}@localhost"
        self._epmd: Kept | None = None
        self._kept: Kept | None = None
        if cluster is None:
            self._epmd_port = free_port()
            self._start_epmd()
        else:
            self._epmd_port = cluster._epmd_port
            self._copy_cookie(cluster)
        self.configure(config)
        self.environment = self._environment(erlang)
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def configure(self, config: str) -> None:
        """Lines of rabbitmq.conf; they hold from the next start."""
        path = self.home / "rabbitmq.conf"
        path.write_text(config + "\n")
        self._folder.own(path)

    def start(self) -> None:
        """Start the node and wait until it accepts connections (some seconds)."""
        self._kept = Kept(
            self._programs.command(self._folder, "rabbitmq-server"), stop=signal.SIGKILL,
            user=self._programs.user, log=self.home / "server.log", environment=self.environment,
        )  # fmt: skip
        wait_until_up(self._kept, self.port)

    def stop(self) -> None:
        """End the node the way a crash does; its data stays."""
        if self._kept is not None:
            self._kept.stop()
            self._kept = None

    def restart(self) -> None:
        """A crash, and a new start."""
        self.stop()
        self.start()

    @property
    def pid(self) -> int:
        """Of the node's process."""
        assert self._kept is not None
        keeper = self._kept.pid
        return int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])

    def freeze(self) -> None:
        """Let the node stand still."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def ctl(self, *arguments: str, check: bool = True) -> str:
        """What rabbitmqctl prints (a second each time)."""
        user = self._programs.user
        identity = {"user": user, "group": user, "extra_groups": []} if user else {}
        done = subprocess.run(
            self._programs.command(self._folder, "rabbitmqctl", "-q", "-n", self.name, *arguments),
            capture_output=True, text=True, check=False, cwd="/",
            env=dict(os.environ, LC_ALL="C.UTF-8") | self.environment, **identity,
        )  # type: ignore[call-overload]  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {done.stderr.strip()}")
        return str(done.stdout).strip()

    @property
    def url(self) -> str:
        """The URL of the default virtual host, as the built-in user."""
        return self.url_as("guest", "guest")

    def url_as(self, user: str, password: str, vhost: str = "%2F") -> str:
        """The URL of a virtual host, as some user."""
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/{vhost}"

    def add_user(self, name: str, configure: str, write: str, read: str) -> str:
        """Make a user with these rights in the default virtual host; the URL as that user."""
        self.ctl("add_user", name, name)
        self.ctl("set_permissions", name, configure, write, read)
        return self.url_as(name, name)

    def queues(self) -> dict[str, str]:
        """All queues of the default virtual host, and their kinds."""
        lines = self.ctl("list_queues", "name", "type").splitlines()[1:]
        return dict(line.split("\t") for line in lines)

    def joined(self, other: RabbitMQ) -> None:
        """Become a member of another node's cluster."""
        self.ctl("stop_app")
        self.ctl("join_cluster", other.name)
        self.ctl("start_app")

    def running(self) -> set[str]:
        """The nodes of its cluster whose server runs, as this one sees them: a member need not."""
        said = self.ctl("cluster_status", "--formatter", "json", check=False)
        return set(json.loads(said)["running_nodes"])

    def said(self) -> str:
        """The newest lines that it has logged."""
        files = sorted((self.home / "log").glob("*.log"))
        lines = [line for file in files for line in file.read_text(errors="replace").splitlines()]
        return "\n".join([f"{self.name}:", *lines[-_LINES:]])

    def own(self, path: Path) -> None:
        """Hand a file over to the node's account."""
        self._folder.own(path)

    def close(self) -> None:
        """Stop node and epmd and delete what they stored."""
        self.stop()
        if self._epmd is not None:
            self._epmd.stop()
        self._folder.remove()

    def _environment(self, erlang: str) -> dict[str, str]:
        home = str(self.home)
        return {
            "HOME": home,
            "RABBITMQ_ALLOW_INPUT": "1",  # no shell around the node: a signal reaches it
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_MNESIA_BASE": f"{home}/mnesia",
            "RABBITMQ_LOG_BASE": f"{home}/log",
            "RABBITMQ_CONF_ENV_FILE": f"{home}/absent",
            "RABBITMQ_CONFIG_FILE": f"{home}/rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/plugins",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -start_epmd false "
            f"-kernel inet_dist_use_interface {{127,0,0,1}} {erlang}",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._epmd_port),
        }

    def _start_epmd(self) -> None:
        epmd = need("epmd", [], ["erlang-base"])
        self._epmd = Kept(
            [str(epmd), "-port", str(self._epmd_port), "-address", "127.0.0.1"],
            stop=signal.SIGKILL, user=self._account, log=self.home / "epmd.log",
        )  # fmt: skip
        wait_until_up(self._epmd, self._epmd_port)

    def _copy_cookie(self, other: RabbitMQ) -> None:
        cookie = self.home / ".erlang.cookie"
        cookie.write_bytes((other.home / ".erlang.cookie").read_bytes())
        cookie.chmod(0o400)
        self._folder.own(cookie)


def cluster(
    count: int, config: str = "", *, programs: Programs | None = None, erlang: str = ""
) -> Sequence[RabbitMQ]:
    """That many nodes that know each other, the first of them first."""
    nodes = [RabbitMQ(config, programs=programs, erlang=erlang)]
    try:
        for _ in range(count - 1):
            nodes.append(RabbitMQ(config, programs=programs, cluster=nodes[0], erlang=erlang))
            nodes[-1].joined(nodes[0])
        names = {node.name for node in nodes}
        for node in nodes:  # that one is a member does not say that its server runs
            eventually(partial(_sees, node, names), timeout=120)
    except BaseException:
        for node in nodes:
            node.close()
        raise
    return nodes


def _sees(node: RabbitMQ, names: set[str]) -> bool:
    return names <= node.running()
