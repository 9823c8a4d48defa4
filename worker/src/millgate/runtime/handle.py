"""The supervisor's side of one child: its process, its link, its page, its output, and the runs that are in it."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from millgate.errors import NotDecodable
from millgate.runtime import reactor, wire
from millgate.runtime.capture import Capture
from millgate.runtime.ledger import Run
from millgate.runtime.marks import Marks, Past
from millgate.runtime.processes import kill_tree, tree_of
from millgate.runtime.reactor import Reactor
from millgate.runtime.recycle import REPLACING, Because
from millgate.runtime.spawn import Spawned

_OUTPUT_CHUNK: Final = 256 * 1024
_READ: Final = reactor.READ  # in the constructor the module's name is taken
#: Seconds for which an idle child may leave its next run alone.
NEGLECT: Final = 30.0
#: Seconds for which its link may be closed although it lives: it is about to end, mostly.
_DEAF: Final = 1.0
#: So much of the time between two looks counts towards either: in a freeze nobody looks.
_LOOK: Final = 0.25
_ENDED: Final = select.EPOLLHUP | select.EPOLLERR


class Phase(Enum):
    """The life of a child."""

    STARTING = "starting"  # it imports the app
    STANDBY = "standby"  # ready, waiting for another child's place
    READY = "ready"
    RETIRING = "retiring"  # takes nothing new, ends when it has nothing left
    ENDING = "ending"  # told to end, or killed
    DEAD = "dead"


class Child:
    """Used by the io thread, but for `kill` and the plain words that the watch reads."""

    def __init__(self, key: int, spawned: Spawned, reactor: Reactor, now: float) -> None:
        self.key = key
        self.row = 0  # in the guardian's page
        self.pid = spawned.pid
        self.forked = spawned.forked
        self.phase = Phase.STARTING
        self.because: Because | None = None  # why it was told to end
        self.born = now
        self.ready_at = 0.0
        self.ending_at = 0.0  # when it was told to end
        self.tasks = self.baseline = 0  # done so far; bytes when ready
        self.size: int | None = None  # bytes of the tree at the watch's last look
        self.lease = 0.0  # the shortest of its runs
        self.left: int | None = None  # jobs that it may still be given; None: no bound
        self.limited = False  # it has a data limit
        self.runs: dict[int, Run] = {}  # by number, in the order in which the child takes them up
        self.table = spawned.table
        self._kept = (0, 0)  # what its page showed at the last look
        self._looked = now
        self._neglected = (0, 0.0)  # the run that is next, and for how long it is
        self._deaf = 0.0  # seconds for which its link is closed
        self.captures: dict[int, Capture] = {}  # by the number of the run; 0: nobody says whose
        self.listen: Callable[[Run | Past | None], Capture]
        self._late: set[int] = set()  # numbers among those of runs that are over
        self.quiet = 0  # results since it last printed
        self.on_frames: Callable[[Child, list[Any]], None] = lambda _child, _frames: None
        self.on_end: Callable[[Child], None] = lambda _child: None
        self._reap = spawned.reap
        self._pidfd = spawned.pidfd
        self._link: socket.socket | None = spawned.link
        self._output: int | None = spawned.output
        self._frames = wire.Reader(spawned.link.recv_into)
        self._marks = Marks()
        self._out: deque[memoryview] = deque()
        self._wanted = _READ  # what the link waits for
        self._reactor = reactor
        reactor.add(spawned.link.fileno(), self._on_link)
        # what is printed before a result is there before it
        reactor.add(spawned.output, self._on_output, first=True)
        reactor.add(spawned.pidfd, self._on_exit)

    # --- the link --------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Queue a frame; it goes out as the child reads."""
        if self._link is None:
            return
        self._out.append(memoryview(frame))
        if len(self._out) == 1:
            self._flush()

    def _flush(self) -> None:
        link = self._link
        if link is None:
            return
        try:
            while self._out:
                sent = link.send(self._out[0])
                if sent < len(self._out[0]):
                    self._out[0] = self._out[0][sent:]
                    continue
                self._out.popleft()
            self._want(link, reactor.READ)
        except BlockingIOError:
            self._want(link, reactor.READ | reactor.WRITE)
        except OSError:
            self._out.clear()  # it is dying; its exit tells the rest

    def _want(self, link: socket.socket, mask: int) -> None:
        if mask != self._wanted:  # mostly it is: a call to the kernel hands the interpreter over
            self._wanted = mask
            self._reactor.want(link.fileno(), mask)

    def _on_link(self, events: int) -> None:
        if events & reactor.WRITE:
            self._flush()
        if events & (reactor.READ | _ENDED):
            self._receive()

    def _receive(self) -> bool:
        """Handle what one receive brings; False: nothing more comes now."""
        try:
            frames = self._frames.read()
        except BlockingIOError:
            return False
        except OSError:
            frames = None
        except NotDecodable:  # user code wrote on our descriptor, or memory was overwritten
            self.kill(Because.BROKEN)
            frames = None
        if frames is None:
            self._close_link()
            return False
        if frames:
            self.on_frames(self, frames)
        return True

    def collect(self) -> bool:
        """Take the results that the child has held back since the last look, to send them with others: its next task
        may be a long one. Answers whether another look soon is worth while."""
        sent, kept = self.table.unsent()
        known, self._kept = self._kept, (sent, len(kept))
        if sent == known[0]:  # what was there at the last look is seen whole now, on every machine
            self._collect(kept[: known[1]])
        return bool(kept) and self._kept != known

    def _collect(self, kept: bytes) -> None:
        if not kept:
            return
        try:
            frames = wire.frames_of(kept)
        except NotDecodable:
            self.kill(Because.BROKEN)
            return
        self.on_frames(self, frames)  # those that were sent meanwhile come twice, and count once

    def _close_link(self) -> None:
        if self._link is not None:
            self._reactor.remove(self._link.fileno())
            self._link.close()
            self._link = None
            self._out.clear()

    # --- its output ------------------------------------------------------------------------------

    def _on_output(self, _events: int) -> None:
        self.read_output(1)

    def read_output(self, times: int = 64) -> None:
        """Take what was printed so far, at most so many chunks: before a task is settled, and as it comes."""
        for _ in range(times):
            if self._output is None:
                return
            try:
                data = self._read_chunk()
            except BlockingIOError:
                return
            if not data:
                self._close_output()
                return
            self.quiet = 0
            for number, text in self._marks.cut(data):
                self._capture(number).feed(text)
            if len(data) < _OUTPUT_CHUNK // 4:
                return

    def end_output(self, numbers: Sequence[int]) -> None:
        """These runs print no more; what belongs to no run that is known here ends with them."""
        late, self._late = self._late, set()
        for number in {*numbers, 0, *late}:
            capture = self.captures.pop(number, None)
            if capture is not None:
                capture.end()

    def _capture(self, number: int) -> Capture:
        run: Run | Past | None = self.runs.get(number)
        if run is None and number:
            run = self._marks.past
            if run is None:
                number = 0
            else:
                self._late.add(number)
        if number not in self.captures:
            self.captures[number] = self.listen(run)
        return self.captures[number]

    def _read_chunk(self) -> bytes:
        assert self._output is not None
        return os.read(self._output, _OUTPUT_CHUNK)

    def _close_output(self) -> None:
        if self._output is not None:
            number, text = self._marks.rest()
            if text:
                self._capture(number).feed(text)
            self._reactor.remove(self._output)
            os.close(self._output)
            self._output = None

    # --- its end ---------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Send a signal to the child itself, never to a newer process of its number. A task may have made of it a
        program of another user."""
        with suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._pidfd, number)

    def ask_to_end(self, now: float) -> None:
        """No more jobs come: the child ends when it has run what it has. Its on_stop hooks may ask as tasks do."""
        self.phase, self.ending_at = Phase.ENDING, now
        self.send(wire.encode(["end"]))

    def kill(self, because: Because) -> None:
        """End the whole tree now. The first reason for a kill stays. From any thread."""
        if self.because is None or self.because in REPLACING:
            # It was to be replaced after its task; now the task is what ends.
            self.because = because
        if self.phase is Phase.DEAD:
            return
        tree = tree_of(self.pid)
        self.signal(signal.SIGKILL)
        for pid in tree[1:]:
            kill_tree(pid)

    def _on_exit(self, _events: int) -> None:
        while self._link is not None and self._receive():
            pass  # results that were sent before the end count
        self._collect(self.table.unsent()[1])  # and those that were about to be sent
        self.read_output()
        self._close_link()
        self._close_output()
        self.phase = Phase.DEAD
        self._reactor.remove(self._pidfd)
        self.on_end(self)

    def reap(self) -> int:
        """The exit status as `waitpid` says it, once it has ended."""
        return self._reap()

    def close(self) -> None:
        """Let the page and the process go."""
        self.table.close()
        os.close(self._pidfd)

    # --- its runs --------------------------------------------------------------------------------

    def started(self) -> list[tuple[int, Run]]:
        """Numbers and runs that it has taken up and not finished."""
        mark = self.table.started
        # Those before the last one have ended, their results are on the way.
        if self.table.slots == 1:
            run = self.runs.get(mark)
            return [] if run is None else [(mark, run)]
        found = []
        for seq, run in list(self.runs.items()):  # other threads ask too
            if seq > mark:
                break  # the numbers only grow
            found.append((seq, run))
        return found

    def runs_now(self, seq: int) -> bool:
        """Whether it may be at this run at the moment."""
        return seq in self.runs and (self.table.slots > 1 or seq >= self.table.started)

    def buffered(self) -> list[tuple[int, Run]]:
        """Numbers and runs that it has and did not take up yet."""
        mark = self.table.started
        return [(seq, run) for seq, run in list(self.runs.items()) if seq > mark]

    def neglects(self, now: float) -> bool:
        """Whether it is idle and still has not taken up its next run for a long time: then something other than a task
        holds its interpreter, and no timeout would end that. Or whether it has closed its link, as a task does that
        closes whatever is open: no result can come."""
        looked, self._looked = self._looked, now
        if self._link is None:
            self._deaf += min(now - looked, _LOOK)
            return self._deaf > _DEAF
        following = next(iter(self.runs), 0)
        if not following or following <= self.table.started:
            self._neglected = 0, 0.0
            return False
        same, seconds = self._neglected
        seconds = seconds + min(now - looked, _LOOK) if same == following else 0.0
        self._neglected = following, seconds
        return seconds > NEGLECT

    def oldest(self, now: float) -> float | None:
        """Seconds that its longest run has lasted; None: it runs nothing."""
        return max((now - self.table.started_at(seq) for seq, _ in self.started()), default=None)
