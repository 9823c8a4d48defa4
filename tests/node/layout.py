"""Where everything of one instance is, and the addresses inside it: pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HOST_IP = "172.30.0.1"  # of the first node, the API server and the name server
PODS = "10.244.0.0/16"
MOST_NODES = 9
SERVICES = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
PAUSE = "localhost/pause:1"
SOCKET_PATH_LIMIT = 107  # what the kernel takes for a Unix socket's path
LONGEST_SOCKET = "run/containerd-1.sock.ttrpc"
OWN_MOUNTS = ("/var", "/run")  # an instance sees its own copies of these


@dataclass(frozen=True, slots=True)
class Layout:
    """An instance's folder, its programs, the port of its API server, the name of its cgroup, and its size.

    nodes: how many nodes run pods; none means an API server alone.
    """

    folder: Path
    programs: Path
    port: int
    cgroup: str
    nodes: int

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def logs(self) -> Path:
        return self.folder / "log"

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def control(self) -> Path:
        return self.run / "control.sock"

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The nodes."""
        return tuple(Worker(self, index) for index in range(self.nodes))

    @property
    def server(self) -> str:
        """The API server's address: the same outside, where a listener passes it on, and inside."""
        return f"https://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class Worker:
    """A node of an instance: a kubelet and a containerd with files, addresses and a control group of their own.

    All nodes share the instance's network, so a pod of one reaches those of another without more ado.
    """

    layout: Layout
    index: int

    @property
    def name(self) -> str:
        return f"node{self.index}"

    @property
    def ip(self) -> str:
        return f"172.30.0.{self.index + 1}"

    @property
    def pods(self) -> str:
        return f"10.244.{self.index}.0/24"

    @property
    def bridge(self) -> str:
        return f"cni{self.index}"

    @property
    def folder(self) -> Path:
        return self.layout.folder / self.name

    @property
    def config(self) -> Path:
        return self.layout.config / self.name

    @property
    def socket(self) -> Path:
        return self.layout.run / f"{self.containerd}.sock"

    @property
    def cgroup(self) -> str:
        return f"{self.layout.cgroup}/{self.name}"

    @property
    def containerd(self) -> str:
        """The name of the component."""
        return f"containerd-{self.index}" if self.index else "containerd"

    @property
    def kubelet(self) -> str:
        """The name of the component."""
        return f"kubelet-{self.index}" if self.index else "kubelet"


def complaint(folder: Path) -> str | None:
    """Why this folder cannot hold an instance; None when it can."""
    longest = folder / LONGEST_SOCKET
    if len(str(longest)) > SOCKET_PATH_LIMIT:
        return f"{folder} is too long for a folder of sockets: set XDG_CACHE_HOME to a shorter path"
    for own in OWN_MOUNTS:
        if folder.resolve().is_relative_to(own):
            return f"{folder} is under {own}, which an instance replaces: set XDG_CACHE_HOME to another path"
    return None
