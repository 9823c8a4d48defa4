"""The supervisor's side of the template: started once, asked for children, replaced when it dies."""

from __future__ import annotations

import os
import select
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from millgate.clock import Clock
from millgate.errors import AppNotLoaded, NotDecodable
from millgate.runtime import wire
from millgate.runtime.processes import prefer_for_oom
from millgate.runtime.template import ANSWER

#: Seconds that a process may take to import the app.
START_TIMEOUT: Final = 120.0
#: Seconds that one fork may take; an app of a gigabyte takes 30 ms.
_FORK: Final = 2.0
#: It goes before the supervisor when the kernel has to choose, and after the children: it runs no task.
_OOM_ABOVE: Final = 250


class NotYet(Exception):
    """The template imports the app; ask again soon."""


class Unfit(Exception):
    """The app cannot be forked; the message says why."""


class TemplateEnded(OSError):
    """The template ended while it imported the app, or takes too long for that."""


class Template:
    """Used by the io thread."""

    def __init__(
        self, start: Callable[[int], subprocess.Popen[bytes]], hello: bytes, clock: Clock
    ) -> None:
        """`start` runs the template with one end of a link."""
        self._clock = clock
        self._late = clock.monotonic() + START_TIMEOUT
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = start(theirs.fileno())
        prefer_for_oom(self._process.pid, _OOM_ABOVE)
        self._link = ours
        self._reader = wire.Reader(ours.recv_into)
        self._ready = False
        ours.settimeout(_FORK)
        ours.sendall(hello)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def fork(self, descriptors: tuple[int, int, int]) -> int:
        """A child with these descriptors (link, page, output): its number.

        Raises NotYet, Unfit, AppNotLoaded, TemplateEnded, and other OSErrors when the template is gone.
        """
        if not self._ready:
            self._await_word()
            self._hear()
        socket.send_fds(self._link, [b"f"], descriptors)
        answer = self._link.recv(ANSWER.size, socket.MSG_WAITALL)
        if len(answer) < ANSWER.size:
            raise OSError("the template has ended")
        (pid,) = ANSWER.unpack(answer)
        if not pid:
            raise OSError("the template could not fork")
        return int(pid)

    def _await_word(self) -> None:
        if select.select([self._link], [], [], 0)[0]:
            return
        if self._clock.monotonic() > self._late:
            raise TemplateEnded(f"the app was not imported in {START_TIMEOUT:.0f}s")
        raise NotYet

    def _hear(self) -> None:
        try:
            frames = self._reader.read()
        except NotDecodable as error:
            raise OSError(f"the template talks nonsense: {error}") from error
        if frames is None:
            raise TemplateEnded("the template ended while it imported the app")
        for word, detail in frames:
            if word == "failed":
                raise AppNotLoaded(detail)
            if detail is not None:
                raise Unfit(detail)
            self._ready = True
        if not self._ready:
            raise NotYet

    def close(self) -> None:
        """End it; children that it forked live on."""
        self._link.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


def reap_forked(pid: int) -> int:
    """The exit status of a child that a template forked: ours since the process between the two had ended."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0
