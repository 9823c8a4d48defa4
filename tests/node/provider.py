"""Chooses who provides the cluster: our own node, kind, or the cluster at hand."""

from __future__ import annotations

import json
import secrets
import shutil
import tempfile
from pathlib import Path

from node import instance, local, programs, settings
from node.cache import Say
from node.cluster import Cluster
from node.command import CommandFailed, run

KINDS = ("node", "kind", "current")
NODES = 2  # as many as kind.yaml has workers
KIND_CONFIG = Path(__file__).parents[1] / "kind.yaml"


class NoCluster(Exception):
    """The cluster that was asked for is not to be had."""


class KindCluster(Cluster):
    """A cluster made by kind."""

    def __init__(self, name: str, kubeconfig: Path, scratch: Path, *, ours: bool) -> None:
        super().__init__(kubeconfig, scratch)
        self.name, self.ours = name, ours

    def load(self, archive: Path) -> None:
        self.run("kind", "load", "image-archive", archive, "--name", self.name, timeout=600)

    def nodes(self) -> list[str]:
        workers = "!node-role.kubernetes.io/control-plane"
        names = ["-o", "jsonpath={.items[*].metadata.name}"]
        return self.kubectl("get", "nodes", "-l", workers, *names).split()

    def grow(self, count: int) -> None:
        _require_nodes(self, count)

    def stop_node(self, name: str) -> None:
        self.run("docker", "kill", name)

    def start_node(self, name: str) -> None:
        self.run("docker", "start", name)

    def down(self) -> None:
        if self.ours:
            self.run("kind", "delete", "cluster", "--name", self.name, timeout=300)
        shutil.rmtree(self.scratch, ignore_errors=True)


class CurrentCluster(Cluster):
    """The cluster that KUBECONFIG names, whose nodes get their images by themselves."""

    def load(self, archive: Path) -> None:
        raise NoCluster(
            f"{archive.name} cannot be put on the nodes of this cluster from here: push it to a registry that they "
            "pull from, or use --cluster=node or --cluster=kind"
        )

    def nodes(self) -> list[str]:
        return self.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()

    def grow(self, count: int) -> None:
        _require_nodes(self, count)

    def stop_node(self, name: str) -> None:
        raise NoCluster(f"{name} is not ours to stop; use --cluster=node or --cluster=kind")

    def start_node(self, name: str) -> None:
        raise NoCluster(f"{name} is not ours to start; use --cluster=node or --cluster=kind")

    def down(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


def provide(kind: str, say: Say) -> Cluster:
    """The cluster of that kind, brought up; "auto" takes kind where a Docker engine answers, else node.

    "kind" takes the cluster that KUBECONFIG names if kind made it, and leaves it up; otherwise it makes its own.
    """
    kind = chosen(kind)
    if kind == "node":
        return local.up(
            f"test-{secrets.token_hex(4)}", nodes=1, spare=NODES - 1, say=say, ends_with_us=True
        )
    if kind == "kind":
        return _kind(say)
    return _current()


def chosen(kind: str) -> str:
    """The kind that is meant: "auto" is one of the others."""
    if kind != "auto":
        return kind
    return "kind" if _has_kind() else "node"


def _require_nodes(cluster: Cluster, count: int) -> None:
    if len(cluster.nodes()) < count:
        raise NoCluster(f"this needs {count} nodes that run pods; there are {len(cluster.nodes())}")


def _kind(say: Say) -> Cluster:
    if not _has_kind():
        raise NoCluster(
            "kind needs a Docker engine that answers, and kind on the PATH; or use --cluster=node"
        )
    at_hand = settings.kubeconfig()
    name = _kind_context(at_hand)
    if at_hand is not None and name in run(["kind", "get", "clusters"]).split():
        return KindCluster(name, at_hand, _scratch(), ours=False)
    scratch = _scratch()
    kubeconfig = scratch / "kubeconfig"
    name = f"millgate-{secrets.token_hex(3)}"
    say(f"creating the kind cluster {name}")
    made = KindCluster(name, kubeconfig, scratch, ours=True)
    try:
        made.run(
            *("kind", "create", "cluster", "--name", name, "--config", KIND_CONFIG),
            *("--kubeconfig", kubeconfig, "--wait", "180s"),
            timeout=900,
        )
    except BaseException:
        made.down()
        raise
    return made


def _current() -> Cluster:
    kubeconfig = settings.kubeconfig()
    if kubeconfig is None or not kubeconfig.exists():
        raise NoCluster("--cluster=current needs KUBECONFIG to name a file")
    for running in instance.running():
        if running.layout.kubeconfig == kubeconfig:
            return _Kept(running)
    scratch = _scratch()
    name = _kind_context(kubeconfig)
    if name and _has_kind():
        return KindCluster(name, kubeconfig, scratch, ours=False)
    return CurrentCluster(kubeconfig, scratch)


def _kind_context(kubeconfig: Path | None) -> str:
    """The name of the kind cluster that a kubeconfig's present context is for; empty when it is for another."""
    if kubeconfig is None or not kubeconfig.exists():
        return ""
    view = ["kubectl", "config", "view", "--minify", "-o", "json", f"--kubeconfig={kubeconfig}"]
    path = settings.search_path(programs.folder())
    try:
        text = run(view, env=settings.environment(PATH=path))
    except CommandFailed as failed:
        raise NoCluster(f"KUBECONFIG names {kubeconfig}, which cannot be used: {failed}") from None
    context = str(json.loads(text)["current-context"])
    return context.removeprefix("kind-") if context.startswith("kind-") else ""


class _Kept(local.LocalCluster):
    """An instance that was up before the tests, and stays up."""

    def down(self) -> None:
        pass


def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="millgate-cluster-"))


def _has_kind() -> bool:
    path = settings.search_path()
    if not (shutil.which("kind", path=path) and shutil.which("docker", path=path)):
        return False
    try:
        run(["docker", "info"], timeout=30)
    except CommandFailed:
        return False
    return True
