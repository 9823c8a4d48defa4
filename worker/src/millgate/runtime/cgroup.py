"""The container's memory: its limit, what counts against it, and whether the kernel has killed. cgroup v1 and v2.

None means that there is no limit, or that it cannot be read; never zero.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from millgate.frozen import dataclass

_ROOT: Final = Path("/sys/fs/cgroup")
_SELF: Final = Path("/proc/self/cgroup")
#: v1 says "no limit" with a number near 2**63; no machine has so much.
_NO_LIMIT: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One memory cgroup: where its files are and how they are called."""

    path: Path
    version: int
    above: tuple[Path, ...] = ()  # its ancestors that are visible; the smallest limit of all holds

    def limit(self) -> int | None:
        """Bytes that the container may use; None: no limit."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        limits = [_number(path / name) for path in (self.path, *self.above)]
        known = [limit for limit in limits if limit is not None and limit < _NO_LIMIT]
        return min(known) if known else None

    def usage(self) -> int | None:
        """Bytes charged now, page cache included."""
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        return _number(self.path / name)

    def inactive_file(self) -> int:
        """Bytes of page cache that the kernel takes back without harm; costs ten times a usage."""
        key = "inactive_file" if self.version == 2 else "total_inactive_file"
        return _field(self.path / "memory.stat", key) or 0

    def working_set(self, worry: int) -> int | None:
        """Bytes that count: usage without cache. Below `worry` the cache is not looked at, the answer is the usage."""
        usage = self.usage()
        if usage is None or usage < worry:
            return usage
        return max(0, usage - self.inactive_file())

    def oom_kills(self) -> int | None:
        """How often the kernel has killed in this cgroup."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return _field(self.path / name, "oom_kill")

    def kills_all(self) -> bool:
        """Whether an OOM kill takes the whole container (v2, memory.oom.group)."""
        return self.version == 2 and _number(self.path / "memory.oom.group") == 1


def find(self_file: Path = _SELF, root: Path = _ROOT) -> Cgroup | None:
    """This process's memory cgroup; None: there is none that can be read.

    Inside a container the files of its own cgroup are usually at the root of the mount, whatever the list says.
    """
    try:
        lines = self_file.read_text().splitlines()
    except OSError:
        return None
    places = {}
    for line in lines:
        number, controllers, place = line.split(":", 2)
        places["memory" if "memory" in controllers.split(",") else number] = place
    if "memory" in places:
        return _first(root / "memory", places["memory"], "memory.usage_in_bytes", 1)
    if "0" in places:
        for mount in (root, root / "unified"):
            found = _first(mount, places["0"], "memory.current", 2)
            if found is not None:
                return found
    return None


def _first(mount: Path, place: str, name: str, version: int) -> Cgroup | None:
    for path in (mount / place.lstrip("/"), mount):
        if (path / name).is_file():
            above = tuple(p for p in path.parents if p.is_relative_to(mount))
            return Cgroup(path, version, above if path != mount else ())
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max" is not a number either
        return None


def _field(path: Path, key: str) -> int | None:
    try:
        text = path.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return None
