"""What a test can do with a cluster, whoever provides it."""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from node import pki, programs, settings
from node.command import CommandFailed, run


class Cluster(ABC):
    """A cluster that this process reaches with a kubeconfig.

    kubeconfig: the administrator's, good for any client on this machine.
    scratch: a folder for files of tests that ends with the cluster.
    """

    runs_pods = True

    def __init__(self, kubeconfig: Path, scratch: Path) -> None:
        self.kubeconfig, self.scratch = kubeconfig, scratch

    @abstractmethod
    def load(self, archive: Path) -> None:
        """Put the images of a docker-archive where pods find them (imagePullPolicy: IfNotPresent or Never)."""

    @abstractmethod
    def nodes(self) -> list[str]:
        """The names of the nodes that run pods of tests."""

    @abstractmethod
    def grow(self, count: int) -> None:
        """Make sure that at least so many nodes run pods, with the images that were loaded."""

    @abstractmethod
    def stop_node(self, name: str) -> None:
        """End all that runs on a node at once, as a power cut does: its pods, its runtime, its kubelet."""

    @abstractmethod
    def start_node(self, name: str) -> None:
        """Start a node that was stopped."""

    @abstractmethod
    def down(self) -> None:
        """End it, if it was made by us."""

    def environment(self) -> dict[str, str]:
        """The environment in which kubectl, helm and Kubernetes clients find this cluster, and no other."""
        return settings.environment(
            KUBECONFIG=str(self.kubeconfig),
            PATH=settings.search_path(programs.folder()),
            KUBECACHEDIR=str(self.scratch / "kube-cache"),
            HELM_CACHE_HOME=str(self.scratch / "helm" / "cache"),
            HELM_CONFIG_HOME=str(self.scratch / "helm" / "config"),
            HELM_DATA_HOME=str(self.scratch / "helm" / "data"),
        )

    def run(self, *argv: str | Path, stdin: str | None = None, timeout: float = 120) -> str:
        """Run a program on this machine against this cluster; return what it wrote."""
        return run(argv, stdin=stdin, env=self.environment(), timeout=timeout)

    def kubectl(self, *args: str | Path, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl; return what it wrote, raise CommandFailed with what it complained of."""
        return self.run("kubectl", *args, stdin=stdin, timeout=timeout)

    def helm(self, *args: str | Path, stdin: str | None = None, timeout: float = 300) -> str:
        """Run helm; as kubectl()."""
        return self.run("helm", *args, stdin=stdin, timeout=timeout)

    def apply(self, *objects: Mapping[str, Any], namespace: str | None = None) -> None:
        """Apply objects; CommandFailed holds the API server's reason when it refuses one."""
        where = ["-n", namespace] if namespace else []
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", *where, "-f", "-", stdin=json.dumps(items))

    def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """One object, or None when it is not there."""
        where = ["-n", namespace] if namespace else []
        text = self.kubectl("get", kind, name, *where, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else None

    def objects(
        self, kind: str, namespace: str | None = None, selector: str = ""
    ) -> list[dict[str, Any]]:
        """The objects of a kind, in one namespace or in all."""
        where = ["-n", namespace] if namespace else ["-A"]
        chosen = ["-l", selector] if selector else []
        items: list[dict[str, Any]]
        items = json.loads(self.kubectl("get", kind, *where, *chosen, "-o", "json"))["items"]
        return items

    @contextmanager
    def namespace(self, prefix: str = "test", pod_security: str | None = None) -> Iterator[str]:
        """A fresh namespace, ready for pods, deleted afterwards.

        pod_security: the Pod Security level to enforce, such as "restricted".
        """
        name = f"{prefix}-{secrets.token_hex(4)}"
        labels = {"pod-security.kubernetes.io/enforce": pod_security} if pod_security else {}
        metadata = {"name": name, "labels": labels}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        try:
            if self.runs_pods:  # a pod that comes before its namespace's account is refused
                self.kubectl(
                    "wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=30s"
                )
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    def kubeconfig_for(self, account: str, namespace: str) -> Path:
        """A kubeconfig that can do what this ServiceAccount can, for a program under test that runs outside."""
        token = self.kubectl("create", "token", account, "-n", namespace, "--duration=1h").strip()
        view = self.kubectl("config", "view", "--raw", "--minify", "-o", "json")
        server = json.loads(view)["clusters"][0]["cluster"]
        path = self.scratch / f"{namespace}-{account}.kubeconfig"
        ca_data = server["certificate-authority-data"]
        path.write_text(pki.token_kubeconfig(ca_data, server["server"], token))
        path.chmod(0o600)
        return path

    def refusal(self, *objects: Mapping[str, Any], namespace: str | None = None) -> str | None:
        """Why the API server refuses these objects; None when it takes them. Nothing is kept."""
        where = ["-n", namespace] if namespace else []
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        try:
            self.kubectl("apply", *where, "--dry-run=server", "-f", "-", stdin=json.dumps(items))
        except CommandFailed as refused:
            return refused.stderr
        return None
