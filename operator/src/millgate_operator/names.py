"""The API group, labels, annotations and object names: each is spelt here and nowhere else. Pure."""

from __future__ import annotations

from typing import Final

GROUP: Final = "millgate.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "millgate"

#: Field managers of server-side apply: everything but replicas, and replicas while the autoscaler decides them.
MANAGER: Final = "millgate-operator"
AUTOSCALER: Final = "millgate-autoscaler"

# --- labels and annotations ----------------------------------------------------------------------

LABEL_QUEUE: Final = f"{GROUP}/queue"
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_MANAGED: Final = "app.kubernetes.io/managed-by"
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"
WORKER: Final = "worker"  # values of LABEL_COMPONENT
BROKER: Final = "broker"

#: On a pod template: changes with what the pods must be started again for.
ANNOTATION_CONFIG: Final = f"{GROUP}/config"
#: On a TaskQueue: "paused" stops the operator, respectively its scale-in, for this object.
ANNOTATION_RECONCILE: Final = f"{GROUP}/reconcile"
ANNOTATION_SCALE_IN: Final = f"{GROUP}/scale-in"
PAUSED: Final = "paused"
#: On a CRD: grows with its schema.
ANNOTATION_SCHEMA: Final = f"{GROUP}/schema-version"
SCHEMA_VERSION: Final = 1
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
FINALIZER: Final = f"{GROUP}/cleanup"

# --- what a pod finds inside ---------------------------------------------------------------------

CONTAINER: Final = "worker"
BROKERD: Final = "brokerd"  # the container of a broker pod
BROKER_DIR: Final = "/etc/millgate/broker"  # the connection Secret's keys, a file each
KEY_DIR: Final = "/etc/millgate/local"  # the key of a Local broker
KEY_FILE: Final = f"{KEY_DIR}/key"
HTTP_PORT: Final = 8080
BROKERD_PORT: Final = 7411

#: Longest name of a TaskQueue: children's names append to it, and pods' names to theirs.
MAX_QUEUE_NAME: Final = 40
#: Longest name of a queue on its broker.
MAX_BROKER_QUEUE: Final = 63


def broker_queue(namespace: str, name: str) -> str:
    """The queue's name on its broker when the manifest sets no prefix."""
    return f"{namespace}.{name}"


def workers(queue: str) -> str:
    """The Deployment, ConfigMap, disruption budget, network policy and service account of a queue's workers."""
    return f"{queue}-workers"


def brokerd(queue: str) -> str:
    """The StatefulSet, Service, Secret and network policy of a queue's Local broker; on RabbitMQ the Deployment,
    disruption budget and network policy of its brokerd."""
    return f"{queue}-broker"


def labels(queue: str, component: str) -> dict[str, str]:
    """Labels of every object made for a queue."""
    return {
        LABEL_NAME: "millgate",
        LABEL_INSTANCE: queue,
        LABEL_COMPONENT: component,
        LABEL_MANAGED: MANAGER,
        LABEL_QUEUE: queue,
    }


def selector(queue: str, component: str) -> dict[str, str]:
    """The labels that pick a queue's pods; a Deployment can never change them."""
    return {LABEL_QUEUE: queue, LABEL_COMPONENT: component}


def selector_text(queue: str, component: str) -> str:
    """The same as a text, for requests and for the scale subresource."""
    return ",".join(f"{key}={value}" for key, value in selector(queue, component).items())
