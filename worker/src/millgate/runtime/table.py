"""The page that a child and its supervisor share: who has started, what to leave alone, what to stop. No locks.

Each word has one writer. A reader sees a word whole (aligned, 64 bits), and an old value at worst.
"""

from __future__ import annotations

import mmap
import os
import signal

from millgate.hints import Final

# words written by the child
_STARTED: Final = 0  # highest number that was taken up
_KEPT: Final = 1  # bytes of frames that it has not sent yet
_SENT: Final = 2  # how often it has sent such
# words written by the supervisor
_RECALL_FROM: Final = 8
_RECALL_TO: Final = 9
_HEAD: Final = 16  # words before the first row
_ROW: Final = 4  # words of a row: start time, cancelled, soft-expired, spare
_NANO: Final = 1_000_000_000
#: The signal that makes a child look at its page.
LOOK: Final = signal.SIGRTMIN + 7
#: Numbers that may be in a child at once beside its slots: two frames of the longest.
BUFFERED: Final = 128
#: Bytes of frames that a child may keep in its page before it sends them.
SHELF: Final = 4096


def rows_for(slots: int) -> int:
    """Rows enough for all numbers that can be in a child at once: a power of two."""
    return 1 << (slots + BUFFERED).bit_length()


class Table:
    """One child's page, seen by either side. Numbers (`seq`) are given out by the supervisor and only grow; those that
    are in the child at once differ in their row, the number modulo `rows`."""

    def __init__(self, descriptor: int, slots: int) -> None:
        self.descriptor = descriptor
        self.slots = slots
        self.rows = rows_for(slots)
        self._map = mmap.mmap(descriptor, self.size(slots))
        self._words = memoryview(self._map)[: 8 * (_HEAD + _ROW * self.rows)].cast("Q")
        self._shelf = memoryview(self._map)[-SHELF:]
        self._on_shelf = 0  # the child's own knowledge of its word

    @staticmethod
    def size(slots: int) -> int:
        """Bytes of the page, whole pages."""
        used = (_HEAD + _ROW * rows_for(slots)) * 8 + SHELF
        return -(-used // mmap.PAGESIZE) * mmap.PAGESIZE

    @classmethod
    def create(cls, slots: int) -> Table:
        """A fresh page, its descriptor to be handed to the child."""
        descriptor = os.memfd_create("millgate", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, cls.size(slots))
        return cls(descriptor, slots)

    def close(self) -> None:
        """Let it go. Other threads may be looking: they find that nothing runs, and the last of them unmaps it."""
        self._words = memoryview(bytes(len(self._words) * 8)).cast("Q")
        self._shelf = memoryview(b"")
        del self._map
        os.close(self.descriptor)

    def _row(self, seq: int) -> int:
        return _HEAD + _ROW * (seq % self.rows)

    # --- the child -------------------------------------------------------------------------------

    def take(self, seq: int, now: float) -> bool:
        """The child takes up `seq` at `now`; False: it was taken back, leave it alone.

        The order matters: first say that it is taken, then look whether it was taken back.
        """
        words = self._words
        words[self._row(seq)] = int(now * _NANO)
        words[_STARTED] = seq
        return not words[_RECALL_FROM] <= seq <= words[_RECALL_TO]

    def cancelled(self, seq: int) -> bool:
        """Whether the run was told to stop for good."""
        return self._words[self._row(seq) + 1] == seq

    def soft_expired(self, seq: int) -> bool:
        """Whether the run was told to come to an end."""
        return self._words[self._row(seq) + 2] == seq

    def keep(self, frame: bytes) -> bool:
        """Put a frame where the supervisor finds it even if this process is killed; False: there is no room."""
        start = self._on_shelf
        end = start + len(frame)
        if end > SHELF:
            return False
        self._shelf[start:end] = frame
        self._on_shelf = self._words[_KEPT] = end
        return True

    def kept(self) -> memoryview:
        """The frames that were kept and are to be sent."""
        return self._shelf[: self._on_shelf]

    def clear(self) -> None:
        """They have been sent. The order matters: whoever copies them sees by the second word that they are old."""
        words = self._words
        self._on_shelf = words[_KEPT] = 0
        words[_SENT] += 1

    # --- the supervisor --------------------------------------------------------------------------

    def unsent(self) -> tuple[int, bytes]:
        """How often the child has sent what it kept, and the frames that it keeps at the moment: some of them may
        arrive as well."""
        words = self._words
        sent, end = words[_SENT], words[_KEPT]
        frames = bytes(self._shelf[: min(end, SHELF)]) if end else b""
        return sent, frames if words[_SENT] == sent else b""

    @property
    def started(self) -> int:
        """The highest number that the child has taken up; 0: none yet."""
        return self._words[_STARTED]

    def started_at(self, seq: int) -> float:
        """When the run of `seq`, which has started, did so; monotonic seconds."""
        return self._words[self._row(seq)] / _NANO

    def recall(self, first: int, last: int) -> None:
        """Tell the child to leave alone what it has not started of first…last.

        Wait a millisecond, then read `started`: what is above it is taken back; of the rest the child says itself
        whether it left it alone. A range that the child has not passed yet is widened, never lost.
        """
        words = self._words
        if words[_RECALL_TO] > words[_STARTED]:
            first = min(first, words[_RECALL_FROM])
        words[_RECALL_FROM] = first
        words[_RECALL_TO] = last

    def cancel(self, seq: int) -> None:
        """Tell the run to stop for good."""
        self._words[self._row(seq) + 1] = seq

    def expire(self, seq: int) -> None:
        """Tell the run to come to an end."""
        self._words[self._row(seq) + 2] = seq
