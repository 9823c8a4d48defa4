"""Where a run keeps its broker: a folder that is thrown away, or one that the next run finds again."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from millgate.errors import InvalidSettings


@dataclass(frozen=True, slots=True)
class Folder:
    """A private folder; `keep` says whether it outlives the run."""

    path: Path
    keep: bool

    def remove(self) -> None:
        """Throw it away, unless it is to be kept."""
        if not self.keep:
            shutil.rmtree(self.path, ignore_errors=True)


def open_folder(
    manifests: Path, data: Path | None, throw_away: bool, environ: Mapping[str, str]
) -> Folder:
    """`data` when it is named; else a temporary folder, or the one that belongs to this folder of manifests.

    Raises InvalidSettings for a folder that cannot be made.
    """
    if data is None and throw_away:
        return Folder(Path(tempfile.mkdtemp(prefix="millgate-dev-")), keep=False)
    path = data if data is not None else state_folder(manifests, environ)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSettings(
            f"tasks cannot be kept in {path}: {error.strerror}; name another folder with --data"
        ) from error
    return Folder(path.resolve(), keep=True)


def state_folder(manifests: Path, environ: Mapping[str, str]) -> Path:
    """The folder of a user's state that belongs to this folder of manifests (XDG base directories)."""
    home = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or Path.home(), ".local/state")
    # short: the path of a Unix socket ends at about a hundred characters
    digest = hashlib.sha256(str(manifests.resolve()).encode()).hexdigest()[:12]
    return Path(home) / "millgate" / "dev" / digest
