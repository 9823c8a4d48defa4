"""What a worker works out about itself at start: its ceilings in bytes, its name, what it tells the registry."""

from __future__ import annotations

import os
import socket
import sys

from millgate.fleet import WorkerInfo
from millgate.runtime.cgroup import Cgroup
from millgate.runtime.recycle import Ceilings
from millgate.settings import WorkerSettings


def ceilings_of(settings: WorkerSettings, cgroup: Cgroup | None) -> tuple[Ceilings, Cgroup | None]:
    """The ceilings in bytes, and the cgroup whose usage counts against the pod's limit.

    With an explicit --memory the sizes of our own processes count: the cgroup may have other inhabitants.
    """
    limit = cgroup.limit() if cgroup is not None else None
    pod = settings.memory.resolve(limit) if settings.memory is not None else limit
    soft = settings.max_rss.resolve(pod) if settings.max_rss is not None else None
    hard = settings.hard_max_rss.resolve(pod) if settings.hard_max_rss is not None else None
    return Ceilings(soft, hard, pod), (cgroup if settings.memory is None and limit else None)


def info_of(settings: WorkerSettings) -> WorkerInfo:
    """What a worker says of itself when it registers."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        known = version("millgate")
    except PackageNotFoundError:
        known = ""
    topics = ",".join(settings.topics) or "*"
    if settings.exclude:
        topics += " without " + ",".join(settings.exclude)
    return WorkerInfo(
        settings.children * settings.slots, socket.gethostname(), os.getpid(), known, topics
    )


def own_name() -> str:
    """A name for a worker that was given none."""
    return f"{socket.gethostname()}-{os.getpid()}"


def wants_json(settings: WorkerSettings) -> bool:
    """Whether log lines are JSON: asked for, or no person is watching."""
    return settings.log_format == "json" or (
        settings.log_format == "auto" and not sys.stderr.isatty()
    )
