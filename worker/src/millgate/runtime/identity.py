"""What a worker works out about itself at start: its ceilings in bytes, its name, what it tells the registry."""

from __future__ import annotations

import os
import socket
import sys

from millgate.errors import InvalidSettings
from millgate.fleet import WorkerInfo
from millgate.limits import format_bytes
from millgate.runtime.cgroup import Cgroup
from millgate.runtime.recycle import Ceilings
from millgate.settings import WorkerSettings


def ceilings_of(settings: WorkerSettings, cgroup: Cgroup | None) -> tuple[Ceilings, Cgroup | None]:
    """The ceilings in bytes, and the cgroup whose usage counts against the pod's limit.

    With an explicit --memory the sizes of our own processes count: the cgroup may have other inhabitants.
    Raises InvalidSettings when the soft ceiling comes out above the hard one.
    """
    limit = cgroup.limit() if cgroup is not None else None
    pod = settings.memory.resolve(limit) if settings.memory is not None else limit
    soft = settings.max_rss.resolve(pod) if settings.max_rss is not None else None
    hard = settings.hard_max_rss.resolve(pod) if settings.hard_max_rss is not None else None
    if soft is not None and hard is not None and soft >= hard:
        raise InvalidSettings(
            f"--max-rss: {settings.max_rss} is {format_bytes(soft)} here; it must be below --hard-max-rss,"
            f" {format_bytes(hard)}, or it never acts"
        )
    return Ceilings(soft, hard, pod), (cgroup if settings.memory is None and limit else None)


def doubts(
    settings: WorkerSettings, ceilings: Ceilings, cgroup: Cgroup | None
) -> list[tuple[str, dict[str, str]]]:
    """What the log has to say about these ceilings in this container: events, and words to each."""
    found = [
        (
            "a ceiling holds nothing",
            {
                "flag": flag,
                "why": "it is a share of the container's limit, and there is none",
                "instead": "give the container a memory limit, or write an amount",
            },
        )
        for flag, wanted, held in (
            ("--max-rss", settings.max_rss, ceilings.soft),
            ("--hard-max-rss", settings.hard_max_rss, ceilings.hard),
            ("--memory", settings.memory, ceilings.pod),
        )
        if wanted is not None and held is None
    ]
    if cgroup is not None and cgroup.kills_all():
        words = {"why": "memory.oom.group is 1", "instead": "set --max-rss and --hard-max-rss"}
        found.append(("an OOM kill ends the whole container here", words))
    return found


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
