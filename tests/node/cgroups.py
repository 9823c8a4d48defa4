"""The control groups of instances: one root each, and nothing left of those whose instance is gone."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from pathlib import Path

from node.processes import Identity

ROOT = Path("/sys/fs/cgroup")
NAME = re.compile(r"millgate-node-(\d+)-(\d+)")


def name_for(owner: Identity) -> str:
    """The name of an instance's root group: it tells whose it is, so that anyone can see when it is left over."""
    return f"millgate-node-{owner.pid}-{owner.started}"


def make(name: str) -> None:
    """Make a group (a path of names) in every hierarchy: the kubelet wants its root group to be there."""
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True, parents=True)
        if (hierarchy / "cgroup.subtree_control").exists():  # version 2
            group = hierarchy
            _pass_down(group)  # groups below get only the controllers that are passed down
            for part in Path(name).parts:
                group /= part
                _pass_down(group)


def remove(name: str) -> bool:
    """Remove the group and all below it; False when something still runs in it."""
    tops = [hierarchy / name for hierarchy in _hierarchies()]
    for top in tops:
        if top.is_dir():
            for group in sorted(top.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
                with contextlib.suppress(OSError):
                    group.rmdir()
            with contextlib.suppress(OSError):
                top.rmdir()
    return not any(top.is_dir() for top in tops)


def kill(name: str) -> None:
    """Kill every process in the group and below it."""
    for hierarchy in _hierarchies():
        for members in (hierarchy / name).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                for pid in members.read_text().split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)


def left_over() -> list[str]:
    """The root groups whose instance is gone."""
    names = {
        path.name for hierarchy in _hierarchies() for path in hierarchy.glob("millgate-node-*")
    }
    found = [(name, NAME.fullmatch(name)) for name in sorted(names)]
    return [name for name, m in found if m and not Identity(int(m[1]), int(m[2])).is_alive()]


def _hierarchies() -> list[Path]:
    """The mounted trees of groups: one per controller in version 1, one in version 2, both kinds on some machines."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    if not ROOT.is_dir():
        return []
    return [path for path in sorted(ROOT.iterdir()) if path.is_dir() and not path.is_symlink()]


def _pass_down(group: Path) -> None:
    for controller in (group / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):  # not every one can be passed down from everywhere
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
