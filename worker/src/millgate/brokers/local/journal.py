"""The journal of a broker: what was asked of it since its last snapshot, on disk before anybody is answered.

A folder holds `snapshot-N`, the state at one moment, and `journal-N`, the records since; N grows. A journal that
has outgrown the snapshot is followed by N + 1: its journal is opened at once, its snapshot written at leisure, and
older files are removed only when that is complete. So a kill at any moment leaves a snapshot and every journal
after it. One broker has the folder at a time, by a lock on it.

A draft says that a snapshot was begun and not completed: who finds one at its start does not try again at once, since
the snapshot may be what ended the process, where there is no memory for it.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from logging import getLogger
from pathlib import Path
from typing import Final

from millgate.brokers.local import snapshot
from millgate.brokers.served.lockfile import lock
from millgate.clock import Clock
from millgate.errors import BrokerRefused, BrokerUnavailable

#: A journal smaller than this is not worth a snapshot, in bytes.
SMALLEST: Final = 16 * 2**20
_MAGIC: Final = b"MILLGATE"
_HEAD: Final = struct.Struct(">8sH6x")  # what it is, format
_RECORD: Final = struct.Struct(">II")  # length, checksum of this and all records before it
_NAME: Final = re.compile(r"^(journal|snapshot)-(\d{10})$")
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

log = getLogger("millgate.brokers.local")


class Journal:
    """An append-only file in a locked folder. Not safe to use from several threads."""

    def __init__(
        self, folder: Path, clock: Clock, patience: float = 0.0, smallest: int = SMALLEST
    ) -> None:
        """Lock the folder, made if needed, waiting `patience` seconds for it. Raises BrokerRefused."""
        self.folder = folder
        self.number = 0
        self._smallest = self._threshold = smallest
        self._lock = _locked(folder, clock, patience)
        self._file = -1
        self._end = 0  # bytes that are known to be stored
        self._behind = 0  # bytes of older journals that no snapshot replaces yet
        #: Whether an earlier process began a snapshot that it did not complete.
        self._cut_off = False
        self._chain = 0
        self._failing = False
        #: What was answered and is not known to be on the disk: the last so many bytes of the file.
        self._loose = bytearray()

    def snapshot(self) -> bytes | None:
        """The newest snapshot's data. Raises SchemaTooNew, BrokerRefused."""
        for draft in _drafts(self.folder):
            os.truncate(draft, 0)  # nobody reads what is in it
            self._cut_off = True
        found = _files(self.folder, "snapshot")
        if not found:
            return None
        self.number = max(found)
        data = snapshot.read(found[self.number])
        self.written(len(data))
        return data

    def records(self) -> Iterator[bytes]:
        """The records since the snapshot, in order; afterwards a new journal is open.

        A tail that a kill or a power cut tore is cut off: nobody was told that it is stored.
        Raises SchemaTooNew, and BrokerRefused for damage anywhere else.
        """
        found = _files(self.folder, "journal")
        numbers = sorted(number for number in found if number >= self.number)
        try:
            for number in numbers:
                yield from _read(found[number], last=number == numbers[-1])
                self._behind += found[number].stat().st_size
                self.number = number
            if numbers:  # others follow it from now on, so it must stay whole whatever comes
                snapshot.sync_file(found[numbers[-1]])
            self._begin(self.number + 1)
        except OSError as error:
            raise BrokerRefused(f"cannot write in {self.folder}: {error.strerror}") from error
        if self._cut_off:
            self._behind = min(self._behind, self._threshold - self._smallest)

    def append(self, records: Sequence[bytes], *, on_disk: bool = True) -> None:
        """Store records, all or none: on the disk itself, or (not `on_disk`) where they outlive this process only until
        `sync` is called. A disk that has just refused something has to take all of it at once.

        Raises BrokerUnavailable: nothing is stored.
        """
        parts: list[bytes] = []
        chain = self._chain
        for record in records:
            chain = zlib.crc32(record, chain)
            parts += (_RECORD.pack(len(record), chain), record)
        data = b"".join(parts)
        try:
            self._put(data, self._end)
            if on_disk or self._failing:
                self._bring()
            else:
                self._loose += data
        except OSError as error:
            # What is left behind cannot be read as records: the next ones' checksums do not follow from it.
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise self._refusal(error) from error
        self._end += len(data)
        self._chain = chain
        if self._failing:
            self._failing = False
            log.info("the journal in %s can be written again", self.folder)

    @property
    def unsynced(self) -> bool:
        """Whether records are not on the disk yet."""
        return bool(self._loose)

    def sync(self) -> None:
        """Bring on the disk what is not there yet. A disk that refuses is told of in the log, and asked again with the
        next `append`."""
        if self._loose:
            try:
                self._bring()
            except OSError as error:
                self._refusal(error)

    @property
    def due(self) -> bool:
        """Whether a snapshot is worth its while."""
        return self._behind + self._end > self._threshold

    def rotate(self) -> Path | None:
        """Begin the next journal; answer where its snapshot goes. None: there is no room, the old one goes on."""
        for draft in _drafts(self.folder):
            draft.unlink(missing_ok=True)
        self._threshold = self._behind + self._end + self._smallest
        try:
            self._begin(self.number + 1)
        except OSError as error:
            log.warning("no new journal in %s: %s", self.folder, error.strerror)
            self._failing = True
            return None
        path = self.folder / f"snapshot-{self.number:010}"
        with suppress(OSError):
            snapshot.draft(path).touch()
        return path

    def written(self, size: int) -> None:
        """The snapshot of the present journal is complete and has that many bytes: remove what came before."""
        self._threshold, self._behind = max(self._smallest, size), 0
        for kind in ("journal", "snapshot"):
            for number, path in _files(self.folder, kind).items():
                if number < self.number:
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and let the folder go."""
        self.sync()
        for handle in (self._file, self._lock):
            if handle >= 0:
                os.close(handle)
        self._file = self._lock = -1

    def _put(self, data: bytes | bytearray, at: int) -> None:
        view, done = memoryview(data), 0
        while done < len(view):
            done += os.pwrite(self._file, view[done:], at + done)

    def _bring(self) -> None:
        """Have the disk take all that was written. What it refused once is written anew: the kernel forgets that it
        was to be stored, and the next sync would say that all is well."""
        if self._failing and self._loose:
            self._put(self._loose, self._end - len(self._loose))
        os.fdatasync(self._file)
        self._loose = bytearray()

    def _begin(self, number: int) -> None:
        path = self.folder / f"journal-{number:010}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if self._file >= 0:  # what follows in the next file was answered later
                os.ftruncate(self._file, self._end)  # again, if it failed before
                self._bring()
            os.pwrite(handle, _HEAD.pack(_MAGIC, snapshot.FORMAT), 0)
            os.fsync(handle)
            snapshot.sync_folder(self.folder)
        except OSError:
            os.close(handle)
            path.unlink(missing_ok=True)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._behind += self._end
        self._file, self.number, self._end, self._chain = handle, number, _HEAD.size, 0

    def _refusal(self, error: OSError) -> BrokerUnavailable:
        text = f"the broker cannot store anything in {self.folder}: {error.strerror}"
        if not self._failing:  # once, not with every call while it lasts
            self._failing = True
            log.error("%s", text)
        if error.errno in _FULL:
            text += "; free space there, it goes on by itself"
        return BrokerUnavailable(f"{text}. Nothing of this call was stored")


def _locked(folder: Path, clock: Clock, patience: float) -> int:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return lock(
            folder / "lock",
            clock,
            patience,
            f"another broker works in {folder}; stop it, or name another folder with --data",
        )
    except OSError as error:
        raise BrokerRefused(
            f"cannot write in {folder}: {error.strerror}; name another folder with --data, or --journal off"
        ) from error


def _drafts(folder: Path) -> list[Path]:
    """What is left of snapshots whose writers were ended; nobody writes one now, or it is not needed."""
    return list(folder.glob(f"snapshot-*{snapshot.DRAFT}"))


def _files(folder: Path, kind: str) -> dict[int, Path]:
    found = {}
    for path in folder.iterdir():
        match = _NAME.match(path.name)
        if match is not None and match[1] == kind:
            found[int(match[2])] = path
    return found


def _read(path: Path, *, last: bool) -> Iterator[bytes]:
    content = path.read_bytes()
    if last and not content[: _HEAD.size].strip(b"\0"):
        path.write_bytes(_HEAD.pack(_MAGIC, snapshot.FORMAT))
        return  # killed between making the file and its first bytes, which it has from now on
    magic, format_ = _HEAD.unpack_from(content.ljust(_HEAD.size, b"\0"))
    snapshot.check_format(path, magic == _MAGIC, format_)
    position, chain = _HEAD.size, 0
    while position + _RECORD.size <= len(content):
        length, checksum = _RECORD.unpack_from(content, position)
        record = content[position + _RECORD.size : position + _RECORD.size + length]
        chain = zlib.crc32(record, chain)
        if not length or len(record) < length or chain != checksum:
            break  # nothing at all is what a power cut may leave where something was to be written
        yield record
        position += _RECORD.size + length
    if position == len(content):
        return
    if not last:
        raise BrokerRefused(
            f"{path} is damaged at byte {position}, and what follows it was acknowledged; put it back from a copy"
        )
    log.warning("cut %d unacknowledged bytes off %s", len(content) - position, path)
    with path.open("r+b") as file:
        file.truncate(position)
