"""The broker's process: key, journal, state and sockets put together, serving until told to stop."""

from __future__ import annotations

import os
import resource
import signal
import socket
import ssl
from collections.abc import Callable
from logging import getLogger
from pathlib import Path
from typing import Any, Final

from millgate.brokers.local import key, snapshot
from millgate.brokers.local.address import PROBE_TIMEOUT, Place
from millgate.brokers.local.journal import Journal
from millgate.brokers.local.listener import Listener
from millgate.brokers.local.mounts import shared_type
from millgate.brokers.local.server import CONNECTIONS, Server
from millgate.brokers.served.engine import Engine
from millgate.brokers.served.folders import private_folder
from millgate.brokers.served.process import spare_collector, version
from millgate.clock import Clock, SystemClock
from millgate.errors import BrokerRefused, NotDecodable
from millgate.frozen import dataclass

_SPARE: Final = 64  # file descriptors beside the connections'
_STOPS: Final = (signal.SIGTERM, signal.SIGINT)

log = getLogger("millgate.brokers.local")


@dataclass(frozen=True, slots=True)
class Brokerd:
    """How one broker's process is run."""

    place: Place
    key_file: Path
    private_key: bool
    data: Path | None  # None: keep nothing
    starter: int | None = None  # pid of the process that started it by `setup`
    die_with_starter: bool = False
    certificate: Path | None = None  # TLS on TCP
    certificate_key: Path | None = None
    hello_timeout: float = PROBE_TIMEOUT


def serve(how: Brokerd, ready: Callable[[], None], clock: Clock | None = None) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called once connections are taken.

    Raises BrokerRefused and its kinds when it cannot begin, BrokerUnavailable when it cannot yet.
    """
    clock = clock or SystemClock()
    spare_collector()
    resource.setrlimit(resource.RLIMIT_NOFILE, (_files(), _hard_limit()))
    if how.private_key:
        private_folder(how.key_file.parent)
    if how.private_key or how.starter is not None:
        # A command that names a key must find it: a mounted Secret, for example.
        key.create(how.key_file)
    key.read(how.key_file, private=how.private_key)
    # As process 1 of a container it would not hear them while it reads a long backlog.
    for number in _STOPS:
        signal.signal(number, _end)
    with Listener(how.place, clock, how.hello_timeout) as listener:
        engine, journal = Engine(), None
        if how.data is not None:
            journal = Journal(how.data, clock, how.hello_timeout)
            _warn_if_shared(how.data)
            _recover(engine, journal, clock)
        _run(how, listener, engine, journal, clock, ready)
        # Not after an error: then what the journal says is surer than what is in memory.
        if journal is not None:
            _keep(engine, journal)
            journal.close()


def _run(
    how: Brokerd,
    listener: Listener,
    engine: Engine,
    journal: Journal | None,
    clock: Clock,
    ready: Callable[[], None],
) -> None:
    server = Server(
        listener.socket,
        lambda: key.read(how.key_file, private=how.private_key),
        engine,
        journal,
        clock,
    )
    server.info = _info(how)
    server.hello_timeout = how.hello_timeout
    server.tls = _tls(how)
    _stop_on_signals(server)
    _watch_starter(how, server)
    log.info("serving at %s, data in %s", how.place, how.data or "memory only")
    ready()
    server.run()
    log.info("stopped serving at %s", how.place)


def _warn_if_shared(folder: Path) -> None:
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return
    kind = shared_type(folder.resolve(), mounts)
    if kind is not None:
        log.warning(
            "%s is on %s, which other machines may mount: a broker there would not be kept out by the lock;"
            " name a folder of this machine's own with --data",
            folder,
            kind,
        )


def _recover(engine: Engine, journal: Journal, clock: Clock) -> None:
    """Bring back what was stored."""
    count = 0
    try:
        _load(engine, journal)
        for record in journal.records():
            engine.replay(record)
            count += 1
    except NotDecodable as error:
        raise BrokerRefused(
            f"what is stored in {journal.folder} cannot be read: {error}; put it back from a copy"
        ) from error
    now = max(clock.now(), engine.now)
    resumption = engine.resumption(now)
    journal.append([resumption])
    engine.replay(resumption)
    if count:
        log.info("read %d records of the journal in %s", count, journal.folder)


def _load(engine: Engine, journal: Journal) -> None:
    data = journal.snapshot()  # which is gone from memory when the records are read
    if data is not None:
        engine.load(data)


def _keep(engine: Engine, journal: Journal) -> None:
    """Write a snapshot and wait for it; without room for it the journals stay, which is as good."""
    path = journal.rotate()
    if path is None:
        return
    try:
        data = engine.dump()
        snapshot.write(path, data)
    except OSError as error:
        log.warning("no snapshot in %s: %s; the journals stay", journal.folder, error.strerror)
        return
    journal.written(len(data))


def _info(how: Brokerd) -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "version": version(),
        "schema": snapshot.FORMAT,
        "starter": how.starter,
        "orphan": False,
    }


def _end(*_: object) -> None:
    """Nothing was changed yet that is not stored."""
    raise SystemExit(0)


def _stop_on_signals(server: Server) -> None:
    """SIGTERM and SIGINT end the loop."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def told() -> None:
        reader.close()
        signal.set_wakeup_fd(-1)
        writer.close()
        server.stop()

    for number in _STOPS:
        signal.signal(number, lambda *_: None)
    server.watch(reader.fileno(), told)


def _watch_starter(how: Brokerd, server: Server) -> None:
    """Notice the end of the process that started this one: end with it, or be an orphan that others may use."""
    if how.starter is None:
        return

    def ended() -> None:
        server.info["orphan"] = True
        if how.die_with_starter:
            log.info("process %d, which started this broker, has ended", how.starter)
            server.stop()

    try:
        handle = os.pidfd_open(how.starter)
    except ProcessLookupError:
        ended()
        return

    def closed() -> None:
        os.close(handle)
        ended()

    server.watch(handle, closed)


def _tls(how: Brokerd) -> ssl.SSLContext | None:
    if how.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(how.certificate, how.certificate_key)
    except (OSError, ssl.SSLError) as error:
        raise BrokerRefused(f"cannot use the certificate {how.certificate}: {error}") from error
    return context


def _hard_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _files() -> int:
    """Enough file descriptors for all connections, as far as this process may have them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, CONNECTIONS + _SPARE)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
