"""Where everything of one instance is, and the addresses inside it: pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NODE = "node0"
NODE_IP = "172.30.0.1"
PODS = "10.244.0.0/16"
PODS_HERE = "10.244.0.0/24"
SERVICES = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
PAUSE = "localhost/pause:1"
SOCKET_PATH_LIMIT = 107  # what the kernel takes for a Unix socket's path
LONGEST_SOCKET = "run/containerd.sock.ttrpc"
OWN_MOUNTS = ("/var", "/run")  # an instance sees its own copies of these


@dataclass(frozen=True, slots=True)
class Layout:
    """An instance's folder, its programs, the port of its API server and the name of its cgroup."""

    folder: Path
    programs: Path
    port: int
    cgroup: str

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
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def server(self) -> str:
        """The API server's address: the same outside, where a listener passes it on, and inside."""
        return f"https://127.0.0.1:{self.port}"


def complaint(folder: Path) -> str | None:
    """Why this folder cannot hold an instance; None when it can."""
    longest = folder / LONGEST_SOCKET
    if len(str(longest)) > SOCKET_PATH_LIMIT:
        return f"{folder} is too long for a folder of sockets: set XDG_CACHE_HOME to a shorter path"
    for own in OWN_MOUNTS:
        if folder.resolve().is_relative_to(own):
            return f"{folder} is under {own}, which an instance replaces: set XDG_CACHE_HOME to another path"
    return None
