"""This user's folder on this host, where sockets, keys and logs of brokers are."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from millgate.errors import BrokerRefused


def runtime_folder(environ: Mapping[str, str]) -> Path:
    """Where the socket and the key of this user on this host are."""
    given = environ.get("XDG_RUNTIME_DIR", "")
    if given:
        return Path(given) / "millgate"
    return Path(tempfile.gettempdir()) / f"millgate-{os.geteuid()}"


def private_folder(path: Path) -> None:
    """Make a folder that only this user enters. Raises BrokerRefused when somebody else has it already."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise BrokerRefused(f"cannot make the folder {path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise BrokerRefused(
            f"{path} is not a folder of this user's own, and a broker's key must not lie in another's;"
            " remove it, or set XDG_RUNTIME_DIR"
        )
