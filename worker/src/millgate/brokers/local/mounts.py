"""Whether a folder lies on a file system that other machines mount too, as the kernel's list of mounts says. Pure."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

#: File systems on which a lock may hold on one machine and not on the next.
SHARED: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs"}
)
_FUSE: Final = re.compile(r"^fuse\.(sshfs|glusterfs|ceph|s3fs|rclone|nfs)")
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


def shared_type(folder: PurePath, mountinfo: str) -> str | None:
    """The type of a shared file system that `folder` (absolute, resolved) is on; None: it is this machine's own.

    `mountinfo` is what /proc/self/mountinfo has (proc(5)); of two mounts on one place the later covers the earlier.
    """
    best, found = -1, None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()[:1]
        if len(fields) < 5 or not kind:
            continue
        point = PurePath(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        if len(point.parts) >= best and folder.is_relative_to(point):
            best, found = len(point.parts), kind[0]
    return found if found in SHARED or (found and _FUSE.match(found)) else None
