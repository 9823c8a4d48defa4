"""The Deployment of a pool, without `replicas`: those belong to whoever scales. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from millgate.limits import parse_duration
from millgate_operator import names
from millgate_operator.desired.config import variables
from millgate_operator.desired.merge import merged
from millgate_operator.desired.objects import CONTAINER_SECURITY, POD_SECURITY, an_object, digest
from millgate_operator.errors import Blocked
from millgate_operator.spec import TaskQueue, Workers

#: Seconds beside the drain timeout: giving leases back, and the kubelet's own delay.
GRACE: Final = 30
_REQUESTS: Final = {"requests": {"cpu": "100m", "memory": "128Mi"}}


def deployment(queue: TaskQueue) -> dict[str, Any]:
    """The pool's Deployment. Raises Blocked when the overlay takes away what the pool lives by."""
    workers = queue.spec.workers
    assert workers is not None
    name = queue.meta.name
    made = an_object("apps/v1", "Deployment", names.workers(name), queue, names.WORKER)
    template = _template(queue, workers)
    if workers.template is not None:
        overlay = workers.template.model_dump(by_alias=True, exclude_unset=True)
        template = merged(template, overlay)
    _check(template, queue)
    made["spec"] = {
        "selector": {"matchLabels": names.selector(name, names.WORKER)},
        "template": template,
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": 600,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0},
        },
    }
    return made


def grace_seconds(workers: Workers) -> int:
    """How long a pod may take to stop."""
    return ceil(parse_duration(workers.drain_timeout)) + GRACE


def _template(queue: TaskQueue, workers: Workers) -> dict[str, Any]:
    name = queue.meta.name
    return {
        "metadata": {
            "labels": names.labels(name, names.WORKER),
            # a changed setting starts the pods again; a changed Secret does not, workers re-read it
            "annotations": {names.ANNOTATION_CONFIG: digest(variables(queue))},
        },
        "spec": {
            "serviceAccountName": names.workers(name),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": grace_seconds(workers),
            "securityContext": dict(POD_SECURITY),
            "topologySpreadConstraints": _spread(name),
            "containers": [_container(queue, workers)],
            "volumes": [{"name": "tmp", "emptyDir": {}}, _secret_volume(queue)],
        },
    }


def _container(queue: TaskQueue, workers: Workers) -> dict[str, Any]:
    secret_dir = names.BROKER_DIR if queue.spec.broker.connection else names.KEY_DIR
    env = [variable.model_dump(by_alias=True, exclude_unset=True) for variable in workers.env]
    if all(variable.name != "HOME" for variable in workers.env):  # a name may be there only once
        env.insert(0, {"name": "HOME", "value": "/tmp"})  # noqa: S108 -- the pod's own emptyDir
    container: dict[str, Any] = {
        "name": names.CONTAINER,
        "image": workers.image,
        "command": ["millgate", "worker"],
        "env": [
            *env,
            {"name": "MILLGATE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        # the later source wins: nobody's own sources replace the operator's settings
        "envFrom": [*workers.env_from, _settings(queue)],
        "ports": [{"name": "http", "containerPort": names.HTTP_PORT, "protocol": "TCP"}],
        "resources": workers.resources if workers.resources is not None else dict(_REQUESTS),
        "securityContext": dict(CONTAINER_SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 -- the pod's own emptyDir
            {"name": "broker", "mountPath": secret_dir, "readOnly": True},
        ],
    }
    return container | _probes()


def _settings(queue: TaskQueue) -> dict[str, Any]:
    return {"configMapRef": {"name": names.workers(queue.meta.name)}}


def _probes() -> dict[str, Any]:
    def probe(path: str, period: int, failures: int) -> dict[str, Any]:
        return {
            "httpGet": {"path": path, "port": "http"},
            "periodSeconds": period,
            "timeoutSeconds": 5,  # a busy node answers late; that is no reason to start again
            "failureThreshold": failures,
        }

    return {
        "startupProbe": probe("/livez", 2, 60),
        "livenessProbe": probe("/livez", 10, 6),
        # short: a worker that has been emptied leaves only after it was seen not ready
        "readinessProbe": probe("/readyz", 2, 1),
    }


def _secret_volume(queue: TaskQueue) -> dict[str, Any]:
    connection = queue.spec.broker.connection
    name = connection.secret_ref.name if connection else names.brokerd(queue.meta.name)
    return {"name": "broker", "secret": {"secretName": name, "defaultMode": 0o440}}


def _spread(name: str) -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": names.selector(name, names.WORKER)},
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    ]


def _check(template: dict[str, Any], queue: TaskQueue) -> None:
    """What the API server would take and the pool could not live with; everything else it says itself."""
    workers, spec = queue.spec.workers, _mapping(template.get("spec"))
    assert workers is not None
    least, grace = grace_seconds(workers), spec.get("terminationGracePeriodSeconds")
    if not isinstance(grace, int) or grace < least:
        raise Blocked(
            "InvalidTemplate",
            f"workers.template.spec.terminationGracePeriodSeconds is {grace}, but a drainTimeout of "
            f"{workers.drain_timeout} needs {least}; remove it, or shorten drainTimeout",
        )
    if spec.get("restartPolicy", "Always") != "Always":
        raise Blocked(
            "InvalidTemplate", "workers.template.spec.restartPolicy must be Always; remove it"
        )
    labels = _mapping(_mapping(template.get("metadata")).get("labels"))
    if not names.selector(queue.meta.name, names.WORKER).items() <= labels.items():
        raise Blocked(
            "InvalidTemplate",
            f"workers.template.metadata.labels must leave {names.LABEL_QUEUE} and {names.LABEL_COMPONENT} alone",
        )
    container: Mapping[str, Any] = next(
        (c for c in spec.get("containers", ()) if c["name"] == names.CONTAINER), {}
    )
    if _settings(queue) not in (container.get("envFrom") or ()):
        raise Blocked(
            "InvalidTemplate",
            f"workers.template has an envFrom for the container {names.CONTAINER}, which takes the operator's settings "
            "away; write your sources in workers.envFrom",
        )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
