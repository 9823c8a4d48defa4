"""An installed Millgate as its users meet it: questions to the cluster, and pods that send work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from node.cluster import Cluster
from support.wait import eventually

RELEASE, SYSTEM = "millgate", "millgate-system"
RESTRICTED: dict[str, Any] = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


class Installed:
    """The release, and what tests want to know of the cluster."""

    def __init__(self, cluster: Cluster, chart: Path, image: str) -> None:
        self.cluster, self._chart, self._image = cluster, chart, image

    def install(self) -> None:
        """helm install, and wait until the operator is up."""
        repository, tag = self._image.rsplit(":", 1)
        self.cluster.helm(
            *("install", RELEASE, self._chart, "-n", SYSTEM, "--create-namespace"),
            *("--set", f"image.repository={repository}", "--set", f"image.tag={tag}"),
            *("--set", "operator.tick=1s", "--wait", "--timeout", "180s"),
        )

    def uninstall(self) -> None:
        """helm uninstall; the definitions and the resources stay, as the chart promises."""
        if RELEASE in self.cluster.helm("list", "-n", SYSTEM, "-q"):
            self.cluster.helm("uninstall", RELEASE, "-n", SYSTEM, "--wait")

    def condition(self, kind: str, name: str, namespace: str, type_: str) -> dict[str, Any]:
        """One condition of a resource; empty when it is not there yet."""
        found = self.cluster.get(kind, name, namespace) or {}
        for condition in found.get("status", {}).get("conditions", []):
            if condition["type"] == type_:
                return dict(condition)
        return {}

    def wait_for(
        self, kind: str, name: str, namespace: str, type_: str = "Ready", timeout: float = 90
    ) -> None:
        """Wait until a condition is True; tell the last one when it does not become so."""
        last: dict[str, Any] = {}

        def holds() -> bool:
            nonlocal last
            last = self.condition(kind, name, namespace, type_)
            return last.get("status") == "True"

        try:
            eventually(holds, timeout=timeout, every=0.5)
        except AssertionError as error:
            raise AssertionError(f"{kind}/{name}: {type_} is {last}") from error

    def pods(self, namespace: str, queue: str) -> list[dict[str, Any]]:
        """The queue's worker pods that are not on their way out."""
        selector = f"millgate.dev/queue={queue},app.kubernetes.io/component=worker"
        found = self.cluster.objects("pods", namespace, selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def send(self, namespace: str, image: str, kind: str, count: int, broker: Broker) -> str:
        """Start a pod that sends and awaits work; its name."""
        name = f"send-{kind}"
        container = {
            "name": "send",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "/app/ledger/send.py", kind, str(count)],
            "env": broker.env,
            "securityContext": RESTRICTED,
            "volumeMounts": [{"name": "broker", "mountPath": broker.folder, "readOnly": True}],
        }
        volume = {"name": "broker", "secret": {"secretName": broker.secret, "defaultMode": 0o444}}
        spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.cluster.apply(pod, namespace=namespace)
        return name

    def answer(self, namespace: str, name: str, timeout: int = 180) -> dict[str, Any]:
        """What a sending pod printed at its end."""
        path = "jsonpath={.status.phase}=Succeeded"
        try:
            self.cluster.kubectl(
                *("wait", f"pod/{name}", "-n", namespace, f"--for={path}", f"--timeout={timeout}s"),
                timeout=timeout + 10,
            )
        except Exception as error:
            logs = self.cluster.kubectl("logs", name, "-n", namespace)
            raise AssertionError(f"{name} did not succeed: {logs}") from error
        *wrong, last = self.cluster.kubectl("logs", name, "-n", namespace).strip().splitlines()
        print(*wrong, sep="\n")
        answer: dict[str, Any] = json.loads(last)
        return answer


class Broker:
    """How a client pod reaches a queue: its variables, and the Secret that it mounts."""

    def __init__(self, secret: str, folder: str, **env: str) -> None:
        self.secret, self.folder = secret, folder
        self.env = [{"name": name, "value": value} for name, value in env.items()]


def local(namespace: str, queue: str) -> Broker:
    """The Local broker of a queue."""
    folder = "/etc/millgate/local"
    host = f"{queue}-broker.{namespace}.svc:7411"
    return Broker(
        f"{queue}-broker",
        folder,
        MILLGATE_BROKER=f"local://{host}?key_file={folder}/key",
        MILLGATE_QUEUE=f"{namespace}.{queue}",
    )


def postgres(namespace: str, queue: str, uri: str) -> Broker:
    """A queue on PostgreSQL."""
    return Broker(
        "database",
        "/etc/millgate/broker",
        MILLGATE_BROKER=uri,
        MILLGATE_QUEUE=f"{namespace}.{queue}",
        MILLGATE_NAME="sender",
    )


def rabbitmq(namespace: str, queue: str, uri: str) -> Broker:
    """A queue on RabbitMQ, whose brokerd runs in pods: a client starts none."""
    return Broker(
        "rabbit",
        "/etc/millgate/broker",
        MILLGATE_BROKER=uri,
        MILLGATE_BROKERD="never",
        MILLGATE_QUEUE=f"{namespace}.{queue}",
    )
