"""The template's entry point: imports the app once, then forks a child for each request. Runs no task and no hook.

It forks twice, so that the child becomes the supervisor's own: a template that dies takes nobody along.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Collection
from typing import Any, Final

from millgate.clock import SystemClock
from millgate.errors import MillgateError
from millgate.frozen import complete
from millgate.runtime import printed, wire
from millgate.runtime.child import find_way, ignore_signals, live
from millgate.runtime.link import Link
from millgate.runtime.load import load_app
from millgate.runtime.processes import become_subreaper, die_with_parent
from millgate.runtime.table import Table
from millgate.runtime.trim import malloc_trim

#: The answer to a request: the child's number, or 0.
ANSWER: Final = struct.Struct("<i")
_DESCRIPTORS: Final = 3  # link, page, output
_LOST: Final = 3


def main(link_number: int, parent: int, slots: int) -> None:
    """Live as the template of `parent`. Never returns."""
    if not die_with_parent(parent):
        os._exit(_LOST)
    ignore_signals()
    printed.install()
    link = socket.socket(fileno=link_number)
    os.set_inheritable(link_number, False)
    reader = wire.Reader(link.recv_into)
    frames = reader.read()
    while frames == []:
        frames = reader.read()
    if frames is None:
        os._exit(0)
    hello: dict[str, Any] = frames[0][1]
    sys.path[:] = hello["path"]
    before = frozenset(connections())
    try:
        find_way(load_app(hello["app"]), slots)  # imports what every child needs for it
    except MillgateError as error:
        link.sendall(wire.encode(["failed", str(error)]))
        os._exit(_LOST)
    complete()
    gc.collect()
    malloc_trim()
    gc.disable()
    gc.freeze()  # what the app brought is not touched by collections in the children
    link.sendall(wire.encode(["ready", obstacle(before)]))
    while True:
        _serve(link, parent, slots)


def obstacle(before: Collection[int] = ()) -> str | None:
    """Why this process cannot be forked safely; None: it can. `before`: connections that are none of the app's."""
    others = [
        thread.name for thread in threading.enumerate() if thread is not threading.main_thread()
    ]
    if others:
        return f"importing the app started threads: {', '.join(others)}"
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:  # noqa: SLF001 -- asks without making one
        return "importing the app started an event loop"
    opened = {whom for number, whom in connections().items() if number not in before}
    if opened:
        whom = ", ".join(sorted(opened))
        return f"importing the app opened connections, to {whom}; open them in on_start"
    return None


def connections() -> dict[int, str]:
    """The descriptors of this process that are one end of a conversation, and who is at the other."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 -- the template stays small
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):  # noqa: PTH115 -- as above
                continue
            with socket.socket(fileno=os.dup(int(name))) as end:
                if end.type == socket.SOCK_STREAM:
                    found[int(name)] = _shown(end.getpeername())
        except OSError:  # it has no other end, or it was the descriptor that the list was read with
            continue
    return found


def _shown(address: Any) -> str:
    if isinstance(address, tuple):
        return f"{address[0]}:{address[1]}"
    return os.fsdecode(address) or "another part of the process"


def _serve(link: socket.socket, parent: int, slots: int) -> None:
    request, descriptors, _, _ = socket.recv_fds(link, 1, _DESCRIPTORS)
    if not request:
        os._exit(0)
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.close(writing)
            link.close()
            _become_child(descriptors, parent, slots)
        os.write(writing, ANSWER.pack(child))
        os._exit(0)
    os.close(writing)
    answer = os.read(reading, ANSWER.size) or ANSWER.pack(0)
    os.close(reading)
    os.waitpid(middle, 0)
    for descriptor in descriptors:
        os.close(descriptor)
    link.sendall(answer)


def _become_child(descriptors: list[int], parent: int, slots: int) -> None:
    """The rest of this process's life is a child's."""
    link_number, table_number, output = descriptors
    clock = SystemClock()
    while os.getppid() != parent:  # until the process in between has ended
        clock.sleep(0.0002)
    os.setsid()
    become_subreaper()
    if not die_with_parent(parent):
        os._exit(_LOST)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    gc.enable()
    _reseed()
    table = Table(table_number, slots)
    link = Link(link_number, table)
    hello = link.hello()
    if hello is None:
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.exit(live(hello, link, table, slots))


def _reseed() -> None:
    """Python reseeds `random` after a fork, numpy does not: two children would draw the same numbers."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()
