"""Memory of process trees: resident pages through kept descriptors, and the shared ones told apart before a kill.

RSS counts a page that forks share once for each of them; PSS counts it once, at a thousand times the cost. So RSS is
the filter and PSS the verdict, for trees of more than one process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from millgate.runtime.processes import ONE_THREAD, children_of

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
#: Descriptors kept for one tree. A task may start thousands of processes, and this process needs some for its broker.
KEPT: Final = 64
#: Processes of one tree of which two more are kept, so that the walk opens nothing: the first ones are there for long.
CLOSE: Final = 8
_LIST: Final = 65536  # bytes of a list of children


def rss_of(pid: int) -> int | None:
    """Resident bytes of one process; None: it is gone."""
    fields = _words(f"/proc/{pid}/statm")
    return int(fields[1]) * PAGE if fields else None


def pss_of(pid: int) -> int | None:
    """Bytes of one process with shared pages divided among those that share; None: gone, or the kernel cannot say."""
    return _kilobytes(f"/proc/{pid}/smaps_rollup", b"Pss:")


def data_of(pid: int | str) -> tuple[int, int] | None:
    """Bytes of writable private address space, and of resident anonymous memory; None: it is gone."""
    data = _kilobytes(f"/proc/{pid}/status", b"VmData:")
    anonymous = _kilobytes(f"/proc/{pid}/status", b"RssAnon:")
    return None if data is None or anonymous is None else (data, anonymous)


class _Process:
    """What is kept open of one process. Asked through descriptors, it costs a tenth of what paths cost."""

    __slots__ = ("children", "pid", "statm", "task")

    def __init__(self, pid: int) -> None:
        """Raises OSError: it is gone, or there are no descriptors left."""
        self.pid = pid
        self.statm = _opened(f"/proc/{pid}/statm")
        self.task = self.children = -1

    def keep(self) -> None:
        """Keep open as well what tells who its children are."""
        with suppress(OSError):
            self.task = _opened(f"/proc/{self.pid}/task")
            self.children = _opened(f"/proc/{self.pid}/task/{self.pid}/children")

    def offspring(self) -> list[int]:
        """Its children now, those that other threads than the main one forked included."""
        if self.children < 0:
            return children_of(self.pid)
        try:
            if os.fstat(self.task).st_nlink > ONE_THREAD:
                return children_of(self.pid)
            return [int(word) for word in os.pread(self.children, _LIST, 0).split()]
        except OSError:
            return []

    def listed(self) -> bytes:
        """The children that its main thread forked, as the kernel writes them."""
        try:
            return os.pread(self.children, _LIST, 0) if self.children >= 0 else b""
        except OSError:
            return b""

    def close(self) -> None:
        for descriptor in (self.statm, self.task, self.children):
            if descriptor >= 0:
                os.close(descriptor)


@dataclass(slots=True)
class Tree:
    """One tree's descriptors; `close` when its root is gone. Used by one thread."""

    root: int
    _known: dict[int, _Process] = field(default_factory=dict)
    _others: set[int] = field(default_factory=set)  # processes beside those, looked up each time
    _listed: bytes = b""
    resident: int = 0  # bytes, as `rss` answered last
    defunct: int = 0  # ended and not reaped, at the last look

    def refresh(self) -> None:
        """Walk the tree again: new processes are found, ended ones let go."""
        found, todo = set[int](), [self.root]
        self._others.clear()
        while todo:
            pid = todo.pop()
            found.add(pid)
            known = self._known.get(pid) or self._open(pid)
            todo += known.offspring() if known is not None else children_of(pid)
        for gone in self._known.keys() - found:
            self._known.pop(gone).close()

    def _open(self, pid: int) -> _Process | None:
        if len(self._known) >= KEPT:
            self._others.add(pid)
            return None
        try:
            made = self._known[pid] = _Process(pid)
        except FileNotFoundError:
            return None  # it ended between the walk and here
        except OSError:
            self._others.add(pid)  # no descriptor to be had for long
            return None
        if len(self._known) <= CLOSE:
            made.keep()
        return made

    def grew(self) -> bool:
        """Whether the root's main thread has other children than at the last question: a microsecond."""
        root = self._known.get(self.root)
        listed = root.listed() if root is not None else b""
        changed, self._listed = listed != self._listed, listed
        return changed

    def rss(self) -> int:
        """Resident bytes of all that the last walk found, shared pages counted for each; counts the defunct as well."""
        total = defunct = 0
        for pid, process in list(self._known.items()):
            try:
                size, resident, _ = os.pread(process.statm, 128, 0).split(None, 2)
            except (OSError, ValueError):
                self._known.pop(pid).close()
                continue
            total += int(resident) * PAGE
            # what has ended has no address space any more; asking /proc/…/stat costs ten times as much
            defunct += size == b"0" and pid != self.root
        for pid in self._others:
            words = _words(f"/proc/{pid}/statm")
            if words:
                total += int(words[1]) * PAGE
                defunct += words[0] == b"0" and pid != self.root
        self.defunct, self.resident = defunct, total
        return total

    def size(self, above: int | None = None) -> int:
        """Bytes that the tree really has. Shared pages are told apart only when RSS is over `above`."""
        total = self.rss()
        if above is None or total <= above or len(self._known) + len(self._others) < 2:
            return total
        return self.share()

    def share(self) -> int:
        """Bytes of all that the last walk found, pages that others have too divided among all that have them."""
        shares = [pss_of(pid) for pid in [*self._known, *self._others]]
        known = [share for share in shares if share is not None]
        return sum(known) if known else self.rss()

    def close(self) -> None:
        """Let all descriptors go."""
        for process in self._known.values():
            process.close()
        self._known.clear()
        self._others.clear()


def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _words(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- measured: half the cost of Path.read_bytes
            return file.read().split()
    except OSError:
        return []


def _kilobytes(path: str, key: bytes) -> int | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 -- as above
            for line in file:
                if line.startswith(key):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
