"""Snapshot files: the whole state of a broker at one moment, complete or not there at all."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Final

from millgate.errors import BrokerRefused, SchemaTooNew

#: Format of snapshots and journals; a program refuses one that is newer than its own.
FORMAT: Final = 1
#: How the name of a snapshot ends while it is being written.
DRAFT: Final = ".draft"
_MAGIC: Final = b"MILLSNAP"
_HEAD: Final = struct.Struct(">8sHIQ")  # what it is, format, CRC-32, length


def write(path: Path, data: bytes) -> int:
    """Store a snapshot under its final name only once it is on the disk; its size. Raises OSError."""
    unfinished = draft(path)
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_HEAD.pack(_MAGIC, FORMAT, zlib.crc32(data), len(data)))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return len(data)


def draft(path: Path) -> Path:
    """What the file of a snapshot is called until it is complete."""
    return path.with_name(path.name + DRAFT)


def read(path: Path) -> bytes:
    """The data of a snapshot. Raises SchemaTooNew, BrokerRefused."""
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise BrokerRefused(f"{path} is not a snapshot of a broker; put it back from a copy")
        magic, format_, checksum, length = _HEAD.unpack(head)
        check_format(path, magic == _MAGIC, format_)
        data = file.read()
    if len(data) != length or zlib.crc32(data) != checksum:
        raise BrokerRefused(f"{path} is damaged: its checksum differs; put it back from a copy")
    return data


def check_format(path: Path, known: bool, format_: int) -> None:
    """Raise for a file that this program cannot read."""
    if not known:
        raise BrokerRefused(f"{path} was not written by a broker; name another folder with --data")
    if format_ > FORMAT:
        raise SchemaTooNew(
            f"{path} has format {format_}, this program knows {FORMAT}; start the newer Millgate that wrote it"
        )


def sync_file(path: Path) -> None:
    """Bring all of a file on the disk. Raises OSError."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make names in a folder as durable as the files behind them."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
