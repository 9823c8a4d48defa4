"""Clusters of our own: an API server alone, or a whole node, in namespaces on this machine."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import Any

from node import cgroups, small
from node.api import Api, is_ready_node
from node.cache import Say
from node.cluster import Cluster
from node.command import run
from node.components import CONTROL, NETWORK, STORE
from node.instance import Instance, InstanceFailed, find, listens, make
from node.layout import Worker
from node.setup import VOLUMES


class LocalCluster(Cluster):
    """A cluster whose programs can be looked at, killed and started again by name."""

    def __init__(self, instance: Instance) -> None:
        scratch = instance.layout.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        super().__init__(instance.layout.kubeconfig, scratch)
        self.instance = instance
        self.runs_pods = instance.layout.nodes > 0
        self.api = Api(instance)

    def enter(self, *argv: str | Path, stdin: str | None = None, timeout: float = 120) -> str:
        """Run a program inside, where Services and pods can be reached by their addresses."""
        return run(self.instance.enter(*argv), stdin=stdin, timeout=timeout)

    def load(self, archive: Path) -> None:
        if not self.runs_pods:
            raise InstanceFailed("an API server alone runs no pods and takes no images")
        with (self.scratch / "archives").open("a") as file:  # for nodes that join later
            file.write(f"{archive.resolve()}\n")
        for worker in self._active():
            self._load_on(worker, archive.resolve())

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a component a signal, such as SIGSTOP to make it hang; after SIGKILL it is gone on return."""
        self.instance.signal(name, number)

    def start(self, name: str) -> None:
        """Start a component that is down, or that was left out; the API server is ready on return."""
        self.instance.start(name)
        if name in STORE and "kube-apiserver" in self.status():
            self._wait_for_api()

    def restart(self, name: str) -> None:
        """Kill a component and start it again."""
        self.kill(name)
        self.start(name)

    def nodes(self) -> list[str]:
        return [worker.name for worker in self._active()]

    def grow(self, count: int) -> None:
        workers = self.instance.layout.workers
        if count > len(workers):
            raise InstanceFailed(f"{count} nodes: this instance was made for {len(workers)}")
        joining = [worker for worker in workers[:count] if worker not in self._active()]
        for worker in joining:
            self._start_containerd(worker)
            for archive in self._archives():
                self._load_on(worker, archive)
            self.instance.start(worker.kubelet)
        watch = (*STORE, *(worker.kubelet for worker in joining))
        self.api.wait("the nodes' readiness", self._nodes_are_ready, seconds=60, watch=watch)

    def stop_node(self, name: str) -> None:
        worker = self._worker(name)
        self.kill(worker.kubelet)
        self.kill(worker.containerd)
        cgroups.kill(worker.cgroup)

    def start_node(self, name: str) -> None:
        worker = self._worker(name)
        self._start_containerd(worker)
        self.instance.start(worker.kubelet)

    def status(self) -> dict[str, dict[str, int | None]]:
        """Process and exit code of every component that was started; the process is None when it ended."""
        return self.instance.status()

    def down(self) -> None:
        self.instance.end()

    def bring_up(self, nodes: int, say: Say) -> None:
        """Start what the instance is for, with so many of its nodes, and wait until tests can use it."""
        self.instance.start(*STORE)
        workers = self.instance.layout.workers[:nodes]
        self.instance.start(*(worker.containerd for worker in workers))
        self._wait_for_api()
        if workers:
            self._bring_up_nodes(workers, say)

    def _bring_up_nodes(self, workers: tuple[Worker, ...], say: Say) -> None:
        self.instance.start(*CONTROL)
        for worker in workers:
            self._start_containerd(worker)
            self._load_on(worker, small.pause(worker.layout.programs))
        self.instance.start(*(worker.kubelet for worker in workers), *NETWORK)
        self.kubectl("apply", "-f", "-", stdin=_volumes(self.instance.layout.folder))
        say(f"waiting for {', '.join(self.nodes())}")
        watch = (*STORE, *CONTROL, *NETWORK, *(worker.kubelet for worker in workers))
        self.api.wait("the nodes' readiness", self._nodes_are_ready, seconds=60, watch=watch)
        self.api.wait("the default account", self._account_is_there, seconds=30, watch=watch)

    def _wait_for_api(self) -> None:
        self.api.wait("the API server's readiness", self.api.is_ready, seconds=60, watch=STORE)

    def _nodes_are_ready(self) -> bool:
        return all(is_ready_node(self.api.read(f"/api/v1/nodes/{name}")) for name in self.nodes())

    def _account_is_there(self) -> bool:
        return self.api.read("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _start_containerd(self, worker: Worker) -> None:
        """Start containerd and wait for it: a kubelet that does not find it ends."""
        if self.status().get(worker.containerd, {}).get("pid") is None:
            worker.socket.unlink(missing_ok=True)  # of the one before
            self.instance.start(worker.containerd)
        watch = (worker.containerd,)
        self.api.wait(
            "containerd's socket", lambda: listens(worker.socket), seconds=30, watch=watch
        )

    def _active(self) -> list[Worker]:
        """The nodes that were started, whether they run or lost their power."""
        started = self.status()
        return [worker for worker in self.instance.layout.workers if worker.kubelet in started]

    def _archives(self) -> list[Path]:
        """What a node must hold: the pods' own image, and those that tests loaded, if they are still there."""
        listed = self.scratch / "archives"
        lines = listed.read_text().splitlines() if listed.exists() else []
        loaded = [path for line in dict.fromkeys(lines) if (path := Path(line)).exists()]
        return [small.pause(self.instance.layout.programs), *loaded]

    def _load_on(self, worker: Worker, archive: Path) -> None:
        state = archive.stat()
        mark = hashlib.sha256(f"{archive} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()
        seen = self.scratch / f"{worker.name}-{mark[:16]}"
        if not seen.exists():
            self._ctr(worker, "images", "import", str(archive))
            seen.touch()

    def _worker(self, name: str) -> Worker:
        for worker in self._active():
            if worker.name == name:
                return worker
        raise InstanceFailed(f"no node {name!r}; there are: {', '.join(self.nodes())}")

    def _ctr(self, worker: Worker, *args: str) -> None:
        program = str(worker.layout.programs / "ctr")
        ctr = [program, "-a", str(worker.socket), "-n", "k8s.io"]
        run(self.instance.enter(*ctr, *args), timeout=300)


def up(
    name: str, *, nodes: int, say: Say, spare: int = 0, ends_with_us: bool = False
) -> LocalCluster:
    """Make an instance of that name and bring it up; on failure nothing is left of it.

    spare: how many nodes more it can grow by.
    """
    instance = make(name, nodes=nodes + spare, say=say, ends_with_us=ends_with_us)
    try:
        cluster = LocalCluster(instance)
        cluster.bring_up(nodes, say)
    except BaseException:
        instance.end()
        raise
    return cluster


def attach(name: str) -> LocalCluster:
    """The running instance of that name."""
    instance = find(name)
    if instance is None:
        raise InstanceFailed(f"no instance called {name} runs; start one with: python -m node up")
    return LocalCluster(instance)


def _volumes(folder: Path) -> str:
    """A default storage class and a few volumes of it, since nothing here makes volumes on demand."""
    storage: dict[str, Any] = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/no-provisioner",
    }
    volumes = [
        _volume(number, folder / "volumes" / str(number)) for number in range(1, VOLUMES + 1)
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [storage, *volumes]})


def _volume(number: int, path: Path) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"standard-{number}"},
        "spec": {
            "storageClassName": "standard",
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(path)},
        },
    }
