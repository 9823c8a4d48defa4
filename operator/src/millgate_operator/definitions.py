"""The two definitions in the cluster: served, and no older than this operator, before anything is done with them.

An API server drops the fields that its definition does not have and says nothing: an operator that is newer than the
definitions would work by half a manifest, and its status would lose parts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from millgate.clock import Clock
from millgate_operator import names
from millgate_operator.cluster import DEFINITION, TASK_QUEUE, TOPIC, Cluster, ClusterError

_LOG = logging.getLogger("millgate_operator")
_PATIENCE: Final = 30.0  # seconds that an API server may take to serve our kinds
_MISSING: Final = 5.0  # the same when it says that there are none
#: The names of both definitions.
NAMES: Final = (f"taskqueues.{names.GROUP}", f"topics.{names.GROUP}")


def check(cluster: Cluster, clock: Clock, namespace: str | None) -> None:
    """Wait until the cluster serves both kinds in `namespace`, None: everywhere, and see that they are new enough.

    Raises ClusterError when it does not or they are not, and says what to do.
    """
    until = clock.monotonic() + _PATIENCE
    for kind in (TASK_QUEUE, TOPIC):
        _wait(cluster, clock, kind, namespace, until)
    for name in NAMES:
        problem = outdated(name, _read(cluster, name))
        if problem:
            raise ClusterError(422, "OldDefinitions", problem)


def outdated(name: str, definition: Mapping[str, Any] | None) -> str:
    """What is wrong with the age of a definition; empty: nothing, or it is not known (None). Pure."""
    if definition is None:
        return ""
    written = (definition["metadata"].get("annotations") or {}).get(names.ANNOTATION_SCHEMA, "0")
    version = int(written) if written.isdecimal() else 0
    if version >= names.SCHEMA_VERSION:
        return ""
    return (
        f"the cluster's definition {name} is of schema version {version}, this operator needs {names.SCHEMA_VERSION}:"
        " its newer fields would be dropped in silence; apply the files of crds/ that came with this operator first"
    )


def _wait(
    cluster: Cluster, clock: Clock, kind: tuple[str, str], namespace: str | None, until: float
) -> None:
    while True:
        try:
            cluster.list(kind, namespace, fields="metadata.name=none")
            break
        except ClusterError as error:
            if clock.monotonic() >= until or not (error.passing or error.status == 404):
                raise
            if error.status == 404 and clock.monotonic() >= until - _PATIENCE + _MISSING:
                words = f"the cluster knows no {kind[1]}; apply the files of crds/ first"
                raise ClusterError(404, "NoDefinitions", words) from error
        clock.sleep(1.0)


def _read(cluster: Cluster, name: str) -> Mapping[str, Any] | None:
    try:
        return cluster.get(DEFINITION, "", name)
    except ClusterError as error:
        if error.status == 403:  # rights in named namespaces only
            _LOG.info(
                "not checked whether the definition %s is new enough: no right to read it", name
            )
            return None
        raise
