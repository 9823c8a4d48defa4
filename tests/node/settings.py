"""What the harness reads from the environment: the only place that does."""

from __future__ import annotations

import os
from pathlib import Path


def cache_home() -> Path:
    """The folder for everything that outlives a run: programs, images, instances."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "millgate" / "node"


def kubeconfig() -> Path | None:
    """The file that KUBECONFIG names; None when it is not set."""
    value = os.environ.get("KUBECONFIG", "")
    return Path(value).absolute() if value else None


def own_go_cache() -> str | None:
    """The Go build cache that the caller chose; None lets the build use one of its own and remove it."""
    return os.environ.get("GOCACHE") or None


def environment(**changes: str) -> dict[str, str]:
    """The caller's environment with changes."""
    return {**os.environ, **changes}


def search_path(*first: Path) -> str:
    """A PATH with these folders first and the administrator's folders last, which a user's PATH may lack."""
    rest = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return ":".join([*map(str, first), rest, "/usr/local/sbin", "/usr/sbin", "/sbin"])


def is_root() -> bool:
    """Whether this process may install packages and make a node."""
    return os.geteuid() == 0
