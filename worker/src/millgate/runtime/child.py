"""The child's entry point: reads what it is to be, imports the app, says what it has, runs jobs until told to end.

Imports no broker driver, and asyncio only for an app that needs it: the memory of a child is the user's.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys

from millgate.clock import Clock, SystemClock
from millgate.errors import MillgateError
from millgate.failure import describe
from millgate.hints import TYPE_CHECKING, Any, Final, Protocol
from millgate.runtime import printed
from millgate.runtime.link import Link
from millgate.runtime.load import check_tasks, load_app
from millgate.runtime.processes import become_subreaper, die_with_parent
from millgate.runtime.table import Table
from millgate.runtime.trim import malloc_trim

if TYPE_CHECKING:
    from collections.abc import Callable

_FAILED: Final = 3


class Way(Protocol):
    """A way of running jobs."""

    def begin(self) -> None: ...
    def work(self) -> None: ...
    def end(self) -> None: ...


def main(link_number: int, table_number: int, parent: int, slots: int) -> None:
    """Live as a child of `parent`. Never returns; the exit code is for the log."""
    become_subreaper()
    if not die_with_parent(parent):
        os._exit(_FAILED)
    ignore_signals()
    os.set_inheritable(link_number, False)
    os.set_inheritable(table_number, False)
    faulthandler.enable()
    printed.install()
    table = Table(table_number, slots)
    link = Link(link_number, table)
    hello = link.hello()
    if hello is None:
        os._exit(0)
    sys.exit(live(hello, link, table, slots, compact=True))


def live(
    hello: dict[str, Any], link: Link, table: Table, slots: int, *, compact: bool = False
) -> int:
    """From the first frame to the last; answers the exit code. `compact`: imports have left holes in the heap."""
    printed.begin()
    sys.path[:] = hello["path"]
    sys.argv[:] = ["millgate-child"]
    try:
        app, way = _prepare(hello["app"], link, table, slots)
        way.begin()
        check_tasks(app, hello["app"])
        if compact:
            malloc_trim()
    except MillgateError as error:
        link.send(["failed", str(error)])
        return _FAILED
    except BaseException as error:  # noqa: BLE001 -- an on_start hook may raise anything
        failure = describe(error)
        link.send(["failed", f"on_start: {failure.error}: {failure.message}"])
        return _FAILED
    tasks = [spec.wire() for spec in app.tasks.values()]
    link.send(
        ["ready", {"tasks": tasks, "async": app.needs_loop, "python": sys.version.split()[0]}]
    )
    way.work()
    way.end()
    return 0


def _prepare(path: str, link: Link, table: Table, slots: int) -> tuple[Any, Way]:
    app = load_app(path)
    app.lend(lambda open_real: _lent(link, open_real))
    return app, find_way(app, slots)(link, table, SystemClock())


def find_way(app: Any, slots: int) -> Callable[[Link, Table, Clock], Way]:
    """The way of running jobs that suits this app; no module of another is imported."""
    from millgate.runtime.station import Station

    if slots == 1:
        from millgate.runtime.solo import Solo

        return lambda *parts: Solo(Station(app, *parts))
    if app.needs_loop:
        from millgate.runtime.looped import Looped

        return lambda *parts: Looped(Station(app, *parts), slots)
    from millgate.runtime.threaded import Threaded

    return lambda *parts: Threaded(Station(app, *parts), slots)


def _lent(link: Link, open_real: Any) -> Any:
    from millgate.runtime.lent import Lent

    return Lent(link, open_real)


def ignore_signals() -> None:
    """A child follows its supervisor, not signals. Handlers, unlike "ignore", end with exec: a task's own programs

    can be terminated; and what a task forks gets the defaults back, so that multiprocessing can terminate it.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)

    def restore() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    os.register_at_fork(after_in_child=restore)
