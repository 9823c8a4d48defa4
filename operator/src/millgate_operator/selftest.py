"""`python -m millgate_operator.selftest`: what `helm test` runs. A queue is made, a task runs in it, all is removed.

Settings: MILLGATE_SELFTEST_NAMESPACE, MILLGATE_SELFTEST_IMAGE, MILLGATE_SELFTEST_PULL_POLICY,
MILLGATE_SELFTEST_TIMEOUT.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from millgate.app import App
from millgate.clock import Clock, SystemClock
from millgate.errors import EXIT_FAILED, EXIT_OK, MillgateError
from millgate.limits import parse_duration
from millgate_operator import names, observe
from millgate_operator.cluster import TASK_QUEUE, Cluster, ClusterError, KubernetesCluster
from millgate_operator.errors import Blocked
from millgate_operator.links import Links
from millgate_operator.probe import probe
from millgate_operator.settings import OperatorSettings, environment
from millgate_operator.spec import parse_task_queue

T = TypeVar("T")
_PREFIX: Final = "MILLGATE_SELFTEST_"


def main() -> int:
    """Run the test, say how it goes; answers the exit code."""
    environ = environment()
    namespace = environ.get(_PREFIX + "NAMESPACE", "default")
    limit = parse_duration(environ.get(_PREFIX + "TIMEOUT", "90s"))
    manifest = _manifest(
        namespace,
        environ.get(_PREFIX + "IMAGE", ""),
        environ.get(_PREFIX + "PULL_POLICY", "IfNotPresent"),
    )
    try:
        return _test(KubernetesCluster(), SystemClock(), manifest, limit)
    except (ClusterError, MillgateError) as error:
        _say(f"failed: {error}")
        return EXIT_FAILED


def _manifest(namespace: str, image: str, pull: str) -> dict[str, Any]:
    container = {"name": names.CONTAINER, "imagePullPolicy": pull}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TaskQueue",
        "metadata": {"name": f"selftest-{secrets.token_hex(4)}", "namespace": namespace},
        "spec": {
            "broker": {"type": "Local"},
            "workers": {
                "image": image,
                "app": "millgate_operator.probe:app",
                "children": 1,
                "replicas": 1,
                "drainTimeout": "1s",
                "template": {"spec": {"containers": [container]}},
            },
        },
    }


def _test(cluster: Cluster, clock: Clock, manifest: dict[str, Any], limit: float) -> int:
    until = clock.monotonic() + limit
    meta = manifest["metadata"]
    made = cluster.create(manifest)
    assert made is not None
    _say(f"made TaskQueue {meta['namespace']}/{meta['name']}")
    try:
        _wait(clock, until, lambda: _ready(cluster, meta["namespace"], meta["name"]))
        _say("it is ready")
        text = secrets.token_hex(8)
        answer = _ask(cluster, made, text, max(1.0, until - clock.monotonic()))
        if answer != text[::-1]:
            _say(f"failed: the task answered {answer!r}, not {text[::-1]!r}")
            return EXIT_FAILED
        _say("a task ran and gave the right answer")
        return EXIT_OK
    finally:
        cluster.delete(TASK_QUEUE, meta["namespace"], meta["name"], made["metadata"]["uid"])
        _say("removed it again")


def _ready(cluster: Cluster, namespace: str, name: str) -> bool:
    """Whether the queue is ready. Raises Blocked with what its status says instead, to be told when time is over."""
    found = cluster.get(TASK_QUEUE, namespace, name) or {}
    for condition in (found.get("status") or {}).get("conditions", ()):
        if condition["type"] == "Ready":
            if condition["status"] == "True":
                return True
            raise Blocked(condition["reason"], f"{condition['reason']}: {condition['message']}")
    raise Blocked("Unseen", "no operator has looked at it; is one running for this namespace?")


def _ask(cluster: Cluster, made: dict[str, Any], text: str, timeout: float) -> object:
    queue = parse_task_queue(made)
    links = Links(10.0)
    try:
        where = observe.connection(cluster, queue, OperatorSettings())
        broker = links.open((queue.meta.namespace, queue.meta.name), queue.broker_queue, where)
        app = App(broker, queue=queue.broker_queue)
        task = app.task(name="probe", topic="probe")(probe.__wrapped__)
        return task.send(text).result(timeout=timeout)
    finally:
        links.close_all()


def _wait(clock: Clock, until: float, check: Callable[[], bool]) -> None:
    while True:
        try:
            if check():
                return
        except (Blocked, ClusterError):
            if clock.monotonic() >= until:
                raise
        clock.sleep(0.5)


def _say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
