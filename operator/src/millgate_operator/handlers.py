"""kopf's raw events become keys in the work queue, and nothing else: what to do is decided by looking, not by events.

Only `on.event` is used: it needs no finalizer and leaves no annotation on anybody's objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import kopf

from millgate_operator import names
from millgate_operator.canary import Canary
from millgate_operator.context import Context

#: What is watched beside the two kinds: things made for a queue. A change of one is a reason to look.
CHILDREN: Final = (
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
    ("", "v1", "services"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
)


def registry(context: Context, canary: Canary) -> kopf.OperatorRegistry:
    """Every handler of the operator."""
    made = kopf.OperatorRegistry()
    on = kopf.on

    @on.login(registry=made, id="login")
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        # the same client, and so the same rules, as everything else here uses
        return kopf.login_via_client(**kwargs)

    @on.event(names.GROUP, names.VERSION, "taskqueues", registry=made, id="taskqueue")
    async def task_queue(name: str | None, namespace: str | None, **_: Any) -> None:
        context.reconciles.add((namespace or "", name or ""))

    @on.event(names.GROUP, names.VERSION, "topics", registry=made, id="topic")
    async def topic(spec: Mapping[str, Any], namespace: str | None, **_: Any) -> None:
        queue = spec.get("queueRef", {}).get("name")
        if queue:
            context.reconciles.add((namespace or "", queue))

    @on.event("coordination.k8s.io", "v1", "leases", registry=made, id="canary")
    async def lease(name: str | None, **_: Any) -> None:
        if name == canary.name:
            canary.seen()

    for group, version, plural in CHILDREN:
        _watch_child(made, context, (group, version, plural))
    return made


def _watch_child(
    made: kopf.OperatorRegistry, context: Context, resource: tuple[str, str, str]
) -> None:
    group, version, plural = resource

    @kopf.on.event(group, version, plural, registry=made, id=f"child-{plural}")
    async def child(event: Mapping[str, Any], **_: Any) -> None:
        obj, deleted = event["object"], event["type"] == "DELETED"
        meta = obj["metadata"]
        queue = (meta.get("labels") or {}).get(names.LABEL_QUEUE)
        if not queue:
            return
        key = (meta["namespace"], queue)
        state = context.pools.get(key)
        if state is not None:
            state.stirred += 1  # only this thread, the event loop's, counts
        if plural == "pods":
            # pods say nothing about the manifest: the next look reads them, their troubles are shown soon
            context.reconciles.add(key, 1.0)
            return
        whole = {"apiVersion": f"{group}/{version}" if group else version, **obj}
        context.applier.seen(whole, deleted=deleted)
        context.reconciles.add(key)


def configure(settings: kopf.OperatorSettings, canary: Canary) -> None:
    """kopf as this operator wants it: no events, no scanning, watches that end and begin again."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    # it would need the right to list namespaces and definitions; ours are checked at the start
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 5
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.process.ultimate_exiting_timeout = 20
    for group, _, plural in CHILDREN:
        # by the one label that no overlay may change
        settings.watching.label_selectors[_resource(group, plural)] = names.LABEL_QUEUE
    lease = f"metadata.name={canary.name}"
    settings.watching.field_selectors["coordination.k8s.io", "leases"] = lease


def _resource(group: str, plural: str) -> Any:
    return (group, plural) if group else kopf_core(plural)


def kopf_core(plural: str) -> Any:
    """The selector of a core resource, whose group is the empty text."""
    return lambda resource: resource.group == "" and resource.plural == plural
