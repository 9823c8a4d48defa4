"""What an instance needs before its programs start: certificates, files, its own mounts and addresses."""

from __future__ import annotations

from pathlib import Path

from node import cgroups, pki
from node.command import run
from node.components import API_NAMES
from node.configs import SYSCTLS, configs
from node.layout import HOST_IP, Layout, Worker

VOLUMES = 5  # folders for persistent volumes


def prepare(layout: Layout) -> None:
    """Write certificates, kubeconfigs and configuration; make the control groups."""
    pki.authority(layout.pki)
    pki.issue(layout.pki, "apiserver", "/CN=kube-apiserver", API_NAMES)
    pki.issue(layout.pki, "admin", "/O=system:masters/CN=admin", "DNS:admin")
    layout.pki.chmod(0o700)
    layout.kubeconfig.touch(mode=0o600)  # whoever can read it is the administrator
    layout.kubeconfig.write_text(pki.client_kubeconfig(layout.pki, "admin", layout.server))
    if not layout.nodes:
        return
    cgroups.make(layout.cgroup)
    for worker in layout.workers:
        _prepare_worker(worker)
    for number in range(1, VOLUMES + 1):
        volume = layout.folder / "volumes" / str(number)
        volume.mkdir(parents=True)
        volume.chmod(0o777)  # pods write to it as whoever they are
    for name, content in configs(layout, _snapshotter(layout.folder)).items():
        path = layout.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def commands(layout: Layout) -> list[list[str]]:
    """What to run first inside."""
    # there may be no device of the kind "dummy", so the nodes' addresses are on the loopback device
    addresses = dict.fromkeys([HOST_IP, *(worker.ip for worker in layout.workers)])
    network = [
        ["ip", "link", "set", "lo", "up"],
        *(["ip", "address", "add", f"{address}/32", "dev", "lo"] for address in addresses),
    ]
    return [*network, *(_node_commands(layout) if layout.nodes else [])]


def _prepare_worker(worker: Worker) -> None:
    folder = worker.layout.pki
    names = f"DNS:{worker.name},IP:{worker.ip}"
    pki.issue(folder, worker.name, f"/O=system:nodes/CN=system:node:{worker.name}", names)
    text = pki.client_kubeconfig(folder, worker.name, worker.layout.server)
    (folder / f"{worker.name}.kubeconfig").write_text(text)
    cgroups.make(worker.cgroup)
    worker.folder.mkdir()


def _node_commands(layout: Layout) -> list[list[str]]:
    shadow = layout.folder / "shadow"
    layers = f"lowerdir=/var,upperdir={shadow}/upper,workdir={shadow}/work"
    return [
        ["sysctl", "-qw", "net.ipv4.ip_forward=1"],
        # programs write under /run and /var whatever their flags say; here that ends with the instance
        ["mount", "-n", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"],
        ["mkdir", "-p", str(shadow), "/run/lock"],
        ["mount", "-n", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(shadow)],
        ["mkdir", f"{shadow}/upper", f"{shadow}/work"],
        ["mount", "-n", "-t", "overlay", "overlay", "-o", layers, "/var"],
        *(
            ["mount", "-n", "--bind", f"{layout.config}/sysctl/{name.replace('/', '.')}", str(path)]
            for name in SYSCTLS
            if (path := Path("/proc/sys") / name).exists()
        ),
    ]


def _snapshotter(folder: Path) -> str:
    """containerd's overlayfs does not work on an overlay, which a CI container's disk is."""
    kind = run(["stat", "-f", "-c", "%T", folder]).strip()
    return "native" if kind == "overlayfs" else "overlayfs"
