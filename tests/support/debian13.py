"""Servers out of Debian 13 on a machine that has older ones: each in a root of its own, made once and kept."""

from __future__ import annotations

import fcntl
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Final

from node import debian, packages
from support.programs import Folder, cache_folder

#: Package → where its programs are.
_FOLDERS: Final = {"rabbitmq-server": "/usr/lib/rabbitmq/bin", "valkey-server": "/usr/bin"}
#: Needs root: mounts what the programs expect into a namespace of their own, then gives the rights up.
_ENTER: Final = """
set -eu
root=$1 folder=$2 identity=$3
shift 3
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mkdir -p "$root$folder"
mount --bind "$folder" "$root$folder"
exec chroot --userspec="$identity" "$root" "$@"
"""


class Debian13:
    """The programs of one package in such a root."""

    user = ""  # `command` changes to the account by itself, once it needs no rights any more

    def __init__(self, package: str = "rabbitmq-server") -> None:
        self._root, self._programs = root(package), _FOLDERS[package]

    def command(self, folder: Folder, program: str, *arguments: str) -> list[str]:
        """What runs one of them with the rights of the account that owns the folder."""
        owner = folder.path.stat()
        identity = f"{owner.st_uid}:{owner.st_gid}"
        inside = ["env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", f"{self._programs}/{program}"]
        enter = ["sh", "-c", _ENTER, "enter", str(self._root), str(folder.path), identity]
        return ["unshare", "--mount", "--propagation", "private", *enter, *inside, *arguments]


@cache
def root(package: str) -> Path:
    """The root with a package; a minute the first time on a machine, which must be Linux with debootstrap, and ours."""
    if os.geteuid() != 0:
        raise RuntimeError(
            f"{package} of Debian 13 runs in a root of its own, for which these tests must run as root"
        )
    name = package.partition("-")[0]
    wanted = cache_folder() / f"{name}-{debian.SUITE}"
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.exists():
            partial = wanted.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            packages.require(packages.IMAGES, print)
            debian.bootstrap(partial, (package,))
            for part in debian.TRIMMED:
                shutil.rmtree(partial / part, ignore_errors=True)
            partial.rename(wanted)
    return wanted
