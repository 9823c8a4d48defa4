"""Small images made in a moment: the one that holds a pod's namespaces, and one with a shell for tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from node import archive, cache, packages, settings
from node.archive import Launch
from node.cache import Say
from node.layout import PAUSE

SHELL = "localhost/shell:1"
SHELL_ARCHIVE = "shell-1.tar"
BUSYBOX = packages.Package("busybox-static", "busybox")


def pause(programs: Path) -> Path:
    """The archive of the image that holds a pod's namespaces."""
    out = programs / "pause.tar"
    if not out.exists():
        root = archive.layer({"pause": programs / "pause"})
        archive.write(out, PAUSE, root, Launch(("/pause",), user="65535"))
    return out


def shell(say: Say) -> Path:
    """The archive of SHELL, busybox with all its commands: two megabytes."""
    out = cache.folder("images") / SHELL_ARCHIVE
    if not out.exists():
        packages.require([BUSYBOX], say)
        busybox = Path(shutil.which("busybox", path=settings.search_path()) or "busybox")
        names = subprocess.run(
            [busybox, "--list"], capture_output=True, text=True, check=True
        ).stdout.split()
        links = {f"bin/{name}": "/bin/busybox" for name in names if name != "busybox"}
        root = archive.layer({"bin/busybox": busybox}, links, open_folders=("tmp",))
        archive.write(out, SHELL, root, Launch(command=("/bin/sh",)))
    return out
