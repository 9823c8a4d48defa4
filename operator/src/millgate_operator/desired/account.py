"""The service account of a pool: an identity for the pods, without a token, since workers need no API. Pure."""

from __future__ import annotations

from typing import Any

from millgate_operator import names
from millgate_operator.desired.objects import an_object
from millgate_operator.spec import TaskQueue


def service_account(queue: TaskQueue) -> dict[str, Any]:
    """The pool's own account."""
    made = an_object("v1", "ServiceAccount", names.workers(queue.meta.name), queue, names.WORKER)
    return made | {"automountServiceAccountToken": False}
