"""The ConfigMap with a pool's settings: variables that the worker reads. Pure."""

from __future__ import annotations

from typing import Any, Final

from millgate_operator import names
from millgate_operator.desired.objects import an_object
from millgate_operator.spec import TaskQueue, worker_settings

#: Read by clients of RabbitMQ beside the URL, which is the user's own text.
_BROKERD: Final = "MILLGATE_BROKERD"


def config_map(queue: TaskQueue) -> dict[str, Any]:
    """Every setting of the pool's workers but their names; no secret is in it."""
    made = an_object("v1", "ConfigMap", names.workers(queue.meta.name), queue, names.WORKER)
    return made | {"data": variables(queue)}


def variables(queue: TaskQueue) -> dict[str, str]:
    """The settings as variables."""
    connection = queue.spec.broker.connection
    # every address of the pod: the kubelet's probes come from outside of it
    metrics = f"0.0.0.0:{names.HTTP_PORT}"
    if connection is None:
        return worker_settings(queue, broker=local_url(queue), metrics=metrics).to_env()
    file = f"{names.BROKER_DIR}/{connection.secret_ref.key}"
    made = worker_settings(queue, broker_file=file, metrics=metrics).to_env()
    if queue.spec.broker.type == "RabbitMQ":
        made[_BROKERD] = "never"  # there are pods for that; a worker's memory is its tasks'
    return made


def local_url(queue: TaskQueue) -> str:
    """How pods of the cluster reach the queue's Local broker."""
    host = f"{names.brokerd(queue.meta.name)}.{queue.meta.namespace}.svc"
    return f"local://{host}:{names.BROKERD_PORT}?key_file={names.KEY_FILE}"
