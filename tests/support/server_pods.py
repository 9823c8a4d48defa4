"""A broker's server as a pod of a cluster, with the Service and the Secret by which a TaskQueue reaches it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from node import services
from support.install import RESTRICTED


@dataclass(frozen=True)
class ServerPod:
    """One server; pod, Service and Secret have its name."""

    name: str
    image: str
    port: int
    variable: str  # in which the image takes the password
    password: str

    def objects(self, uri: str) -> list[dict[str, Any]]:
        """Pod, Service and Secret; `uri` is what the Secret says."""
        metadata = {"name": self.name}
        labels = {"app": self.name}
        return [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata | {"labels": labels},
                "spec": self._pod(),
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"selector": labels, "ports": [{"port": self.port}]},
            },
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": metadata,
                "stringData": {"uri": uri},
            },
        ]

    def _pod(self) -> dict[str, Any]:
        container = {
            "name": "server",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "env": [{"name": self.variable, "value": self.password}],
            "readinessProbe": {"tcpSocket": {"port": self.port}, "periodSeconds": 1},
            "securityContext": {**RESTRICTED, "readOnlyRootFilesystem": True},
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        }
        return {
            "containers": [container],
            "securityContext": {"fsGroup": services.USER},
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
        }
