"""The process that owns a queue on RabbitMQ: it takes calls from the server, stores them there, and decides.

Whoever has the exclusive queue for calls is the owner; another that waits for it takes over when its connection ends.
All that the owner knows is in the server's streams before anybody is answered, so a successor knows it too.
"""

from __future__ import annotations

import os
import random
import signal
import socket
from contextlib import suppress
from logging import getLogger
from typing import Any, Final

from pika import exceptions

from millgate.brokers.rabbitmq import refusals
from millgate.brokers.rabbitmq.connection import LOST, connect, version
from millgate.brokers.rabbitmq.express import Express
from millgate.brokers.rabbitmq.journal import Journal
from millgate.brokers.rabbitmq.lines import Line
from millgate.brokers.rabbitmq.mailbox import Mailbox
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.proof import Proof
from millgate.brokers.rabbitmq.pump import Pump
from millgate.brokers.rabbitmq.records import FORMAT
from millgate.brokers.rabbitmq.role import Brokerd, Standing, Tell
from millgate.brokers.rabbitmq.snapshots import Snapshots
from millgate.brokers.rabbitmq.standby import Standby
from millgate.brokers.rabbitmq.streams import Gone, Streams
from millgate.brokers.served import process
from millgate.brokers.served.attention import Attention
from millgate.brokers.served.desk import Desk
from millgate.brokers.served.engine import Engine
from millgate.brokers.served.steady import Steady
from millgate.clock import Clock
from millgate.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ForeignPeer,
    MillgateError,
    NotDecodable,
)

_CONNECT: Final = 10.0  # seconds for a connection to come about
_FIRST_PAUSE: Final = 1.0  # seconds between attempts, at first
_LONGEST_PAUSE: Final = 2.0  # … and while they go on failing
_WATCH: Final = 0.3  # seconds between looks at whether the queue is free
_LOOK: Final = 0.2  # seconds between looks at a snapshot that is being written
_LOOK_AFTER: Final = 5.0  # seconds between looks at what is stored
_LAST: Final = 3.0  # seconds for an orderly end
#: Seconds without a call after which nobody is there to be kept from calling.
_DESERTED: Final = 60.0

log = getLogger("millgate.brokers.rabbitmq")


class Taken(Exception):
    """Another process has the queue."""


class Overdue(BaseException):
    """The server keeps this process from an orderly end. It does without: all is stored before it counts."""


class Server:
    """One brokerd, over all its connections."""

    def __init__(self, how: Brokerd, clock: Clock, tell: Tell) -> None:
        self._how = how
        self._clock = clock
        self._tell = tell
        self._names = Names(how.queue)
        self._journal = Journal(self._names)
        self._snapshots = Snapshots(self._journal, how.target, clock)
        self._steady = Steady(clock)
        self._mailbox = Mailbox(how.queue, self._names.calls, clock, self._left, self._proved)
        self._desk: Any = None  # until it serves
        self._proof = Proof(clock.monotonic())
        self._attention = Attention(clock.monotonic())
        self._looked = clock.monotonic()  # after the streams
        self._now = self._steady.now()  # of the last turn
        self._next_pause = _FIRST_PAUSE  # seconds at most
        self._connection: Any = None
        self._channel: Any = None
        self._express: Any = None
        self._pump: Any = None
        self._stopping = self._waiting = False
        self._began = self._heard = clock.monotonic()

    # --- all connections -------------------------------------------------------------------------

    def stop(self) -> None:
        """End the loop after this turn. May be called from a signal handler."""
        self._stopping = True
        connection = self._connection
        if connection is not None:
            with suppress(*LOST):
                connection.add_callback_threadsafe(lambda: None)

    def run(self) -> None:
        """Serve until stopped, over as many connections as it takes."""
        said = ""
        while not self._stopping:
            try:
                self._one_connection()
                said = ""
            except Taken:
                self._tell(Standing.WAITING)
                return  # whoever started this one has what it wanted
            except (BrokerUnavailable, *LOST) as error:
                self._tell(Standing.AWAY)
                problem = self._explained(error)
                if not self._how.patient and not self._began_serving:
                    raise problem from error
                said = self._say_once(said, str(problem))
            self._end_if_idle()  # also when it is the server that nobody has any more
            if not self._stopping:
                self._pause()

    def _pause(self) -> None:
        """Wait before the next attempt, ever longer: a server that comes back meets not all of its brokerds at once."""
        longest, self._next_pause = self._next_pause, min(2 * self._next_pause, _LONGEST_PAUSE)
        self._clock.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 -- spreads load, protects nothing

    @property
    def _began_serving(self) -> bool:
        return self._journal.head.term > 0

    def _explained(self, error: BaseException) -> MillgateError:
        if isinstance(error, MillgateError):
            return error
        if isinstance(error, Gone):
            return BrokerUnavailable(f"the stream {error} is not there any more")
        return refusals.closed(error, self._how.target.endpoint)

    def _say_once(self, said: str, text: str) -> str:
        if text != said:
            log.warning("%s", text)
        return text

    # --- one connection --------------------------------------------------------------------------

    def _one_connection(self) -> None:
        end = self._clock.monotonic() + _CONNECT
        name = f"millgate brokerd {self._how.queue}"
        self._connection = connect(self._how.target, name, self._clock, end)
        self._next_pause = _FIRST_PAUSE
        try:
            self._await_turn()
            if not self._stopping:
                self._waiting = False
                self._take_over()
                self._tell(Standing.SERVING)
                self._serve()
        finally:
            self._journal.forget_streams()
            self._mailbox.close()
            with suppress(*LOST):
                self._connection.close()
            self._connection = self._channel = None

    def _await_turn(self) -> None:
        """Have the queue to ourselves, as long as this connection lives; read along until then. Raises Taken when
        this process does not wait."""
        streams, standby = Streams(self._connection), None
        while not self._stopping and (
            (self._waiting and streams.there(self._names.calls)) or not self._held()
        ):
            if not self._how.patient:
                raise Taken
            self._wait(streams)
            if standby is not None and not standby.lost:
                standby.step(_WATCH)
                continue
            if standby is not None:
                standby.close()
            try:
                standby = Standby(self._connection, self._names, self._journal.replica)
            except Gone:  # the one that serves has just removed what was read
                standby = None
                self._connection.sleep(_WATCH)
        if standby is not None and not self._stopping:
            standby.close()

    def _wait(self, streams: Streams) -> None:
        if not self._waiting:
            self._refuse_foreign(streams)
            self._waiting, self._desk = True, None
            log.info("another process serves %s; waiting", self._names.prefix)
            self._tell(Standing.WAITING)

    def _refuse_foreign(self, streams: Streams) -> None:
        """Raise ForeignPeer when what has the name is no brokerd's: anybody may look at it."""
        with suppress(exceptions.ChannelClosedByBroker):
            if streams.present(self._names.calls):
                raise ForeignPeer(
                    f"{self._how.target.endpoint}: something else has a name of ours there; delete it, or use"
                    f" another queue name ({self._names.calls} is a queue that is not exclusive)"
                )

    def _held(self) -> bool:
        self._channel = self._connection.channel()
        try:
            self._channel.queue_declare(self._names.calls, exclusive=True)
        except exceptions.ChannelClosedByBroker as error:
            if error.reply_code == refusals.RESOURCE_LOCKED:
                return False
            error = refusals.naming("configure", error)
            raise refusals.closed(error, self._how.target.endpoint) from error
        return True

    def _take_over(self) -> None:
        before, term = self._engine, self._journal.term
        try:
            self._express = Express(self._connection._impl)  # noqa: SLF001 -- what the wrapping hides
            self._pump = Pump(self._connection)
            self._journal.take_over(Streams(self._connection, self._express, self._pump))
        except NotDecodable as error:
            raise BrokerRefused(
                f"what is stored in {self._names.prefix}* cannot be read: {error}"
            ) from error
        except exceptions.ChannelClosedByBroker as error:
            raise refusals.closed(error, self._how.target.endpoint) from error
        self._steady = Steady(self._clock, self._engine.now)
        if self._engine is not before or self._journal.term != term + 1:  # another has served
            self._desk = None
        self._desk = self._desk or self._new_desk()
        self._resume()
        log.info("serving %s in term %d", self._names.prefix, self._journal.head.term)

    @property
    def _engine(self) -> Engine:
        return self._journal.replica.engine

    def _new_desk(self) -> Desk:
        mailbox = self._mailbox
        return Desk(self._engine, self._journal, mailbox.send, self._info, flush=mailbox.flush)

    def _serve(self) -> None:
        self._mailbox.open(self._channel, self._express)
        self._channel.add_on_cancel_callback(self._cancelled)
        self._heard = self._clock.monotonic()
        self._proof, self._attention = Proof(self._heard), Attention(self._heard)
        while not self._stopping:
            patience = self._patience()
            self._pump.until(self._stirred, patience)
            self._pump.dispatch()
            if self._attention.returned(self._clock.monotonic(), patience):
                self._resume()
            self._prove()
            self._turn()
            self._look_after_streams()
            self._snapshots.consider(self._engine)
            self._end_if_idle()

    def _stirred(self) -> bool:
        return self._mailbox.stirred or self._stopping or self._pump.asked

    def _turn(self) -> None:
        monotonic = self._clock.monotonic()
        came = self._mailbox.taken(monotonic)
        if came:
            self._heard = monotonic
        if not self._proof.late(monotonic):
            self._now = self._steady.now()
        self._desk.turn(self._now, monotonic, came)
        self._mailbox.flush()
        self._follow_clock(monotonic)
        self._proof.worked(self._clock.monotonic() - monotonic)

    def _left(self, line: Line) -> None:
        self._desk.leave(line)

    def _proved(self) -> None:
        self._proof.came(self._clock.monotonic())

    def _prove(self) -> None:
        """Find out whether the server takes messages, and make good the time in which it did not."""
        monotonic = self._clock.monotonic()
        if monotonic < self._heard + _DESERTED and self._proof.due(monotonic):
            self._mailbox.prove()
        if self._proof.was_held_up():
            self._resume()

    def _look_after_streams(self) -> None:
        monotonic = self._clock.monotonic()
        if monotonic >= self._looked + _LOOK_AFTER and not self._proof.late(monotonic):
            self._looked = monotonic
            self._journal.look_after()

    def _resume(self) -> None:
        """Nobody could be heard for a while: no lease ends before its owner could renew it."""
        self._now = self._steady.now()
        self._enter(self._engine.resumption(self._now))

    def _follow_clock(self, monotonic: float) -> None:
        set_to = None if self._proof.late(monotonic) else self._steady.set_to()
        if set_to is not None:
            self._enter(self._engine.correction(self._now, set_to))
            log.warning("this machine's clock was set by %+.0f s", set_to - self._now)
            self._steady.jump(set_to)
            self._now = set_to

    def _enter(self, record: bytes) -> None:
        self._journal.append([record])
        self._engine.replay(record)

    def _patience(self) -> float:
        monotonic = self._clock.monotonic()
        if self._proof.late(monotonic):
            return _LOOK  # time stands still: what is due by the clock is not
        wait = self._desk.wake_in(self._steady.now(), monotonic)
        wait = min(_LOOK_AFTER, _LOOK_AFTER if wait is None else wait)
        if monotonic < self._heard + _DESERTED:
            wait = min(wait, self._proof.wake_in(monotonic))
        if self._snapshots.writing:
            wait = min(wait, _LOOK)
        if self._how.idle is not None:
            wait = min(wait, self._how.idle)
        return wait

    def _end_if_idle(self) -> None:
        idle = self._how.idle
        if idle is not None and self._clock.monotonic() >= self._heard + idle:
            log.info("nobody has called for %g s", idle)
            self._stopping = True

    def _cancelled(self, _method: Any) -> None:
        raise exceptions.ConsumerCancelled

    def _info(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "version": process.version(),
            "schema": FORMAT,
            "server": version(self._connection._impl),  # noqa: SLF001 -- there is no other way to it
            "term": self._journal.head.term,
            "uptime": round(self._clock.monotonic() - self._began, 3),
        }


def serve(how: Brokerd, tell: Tell, clock: Clock) -> None:
    """Serve until SIGTERM or SIGINT; `tell` is called with every change of where it stands, and sometimes between.

    Raises BrokerRefused and its kinds when what is stored, or the server, is not fit; unless `how.patient`, also
    BrokerUnavailable when there is no server.
    """
    process.spare_collector()
    server = Server(how, clock, tell)

    def stop(*_: object) -> None:
        server.stop()
        signal.setitimer(signal.ITIMER_REAL, _LAST)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGALRM, _overdue)
    with suppress(Overdue):
        server.run()


def _overdue(*_: object) -> None:
    raise Overdue
