"""Notices that manifests or code were edited while they run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from millgate_operator.dev.manifests import SUFFIXES

_SKIPPED: Final = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, slots=True)
class Changed:
    """What was edited since the last look."""

    manifests: bool
    code: bool


class Changes:
    """Compares modification times; with `code`, those of Python files below the folder too."""

    def __init__(self, path: Path, code: bool) -> None:
        self._path, self._code = path, code
        self._manifests, self._modules = self._look()

    def since(self) -> Changed:
        """What was edited, added or removed since the last call."""
        manifests, modules = self._look()
        changed = Changed(manifests != self._manifests, modules != self._modules)
        self._manifests, self._modules = manifests, modules
        return changed

    def _look(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        folder = self._path if self._path.is_dir() else self._path.parent
        files = folder.iterdir() if self._path.is_dir() else (self._path,)
        manifests = _times(str(file) for file in files if file.suffix in SUFFIXES)
        return manifests, _times(_modules(folder)) if self._code else {}


def _modules(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED and name[0] != "."]
        yield from (os.path.join(parent, name) for name in names if name.endswith(".py"))  # noqa: PTH118 -- as walk says it


def _times(paths: Iterator[str]) -> dict[str, int]:
    times = {}
    for path in paths:
        try:
            times[path] = os.stat(path).st_mtime_ns  # noqa: PTH116 -- many files, each second
        except OSError:
            continue  # removed between the listing and here
    return times
