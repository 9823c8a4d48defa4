"""A folder's file system, read from the kernel's list."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest

from millgate.brokers.local.mounts import shared_type

MOUNTS = r"""
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:40 / /home rw,nosuid shared:7 - nfs4 server:/home rw,vers=4.2
31 30 254:1 / /home/me/disk rw - xfs /dev/vdb rw
32 21 0:41 / /mnt/my\040share rw - cifs //server/share rw
33 21 0:42 / /mnt/ssh rw - fuse.sshfs me@host: rw
34 21 0:43 / /mnt/crypt rw - fuse.gocryptfs /x rw
35 21 0:44 / /over rw - nfs server:/x rw
36 35 254:2 / /over rw - ext4 /dev/vdc rw
broken line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/millgate", None),
        ("/home/me/.local/state", "nfs4"),
        ("/home/me/disk/data", None),
        ("/homestead", None),
        ("/mnt/my share/x", "cifs"),
        ("/mnt/ssh", "fuse.sshfs"),
        ("/mnt/crypt", None),
        ("/over/x", None),
    ],
)
def test_the_innermost_mount_decides(folder: str, kind: str | None) -> None:
    assert shared_type(PurePath(folder), MOUNTS) == kind


def test_this_machines_own_list_can_be_read() -> None:
    assert shared_type(PurePath("/proc"), Path("/proc/self/mountinfo").read_text()) is None
