"""A client's connection: one thread speaks to the server, any thread calls by a line of its own.

Calls and answers are messages that nobody needs after this moment, so neither is stored or confirmed: a call that is
lost is repeated, and the brokerd answers a repeat from memory.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pika
from pika import exceptions

from millgate.brokers.rabbitmq import refusals
from millgate.brokers.rabbitmq.express import Express, unheard
from millgate.brokers.rabbitmq.lines import PROTOCOL, REPLY_TO, Joiner, split
from millgate.brokers.rabbitmq.packets import Arrival, Kind, Properties
from millgate.brokers.served.frames import ANSWER_BOUND
from millgate.brokers.served.link import Hangup
from millgate.clock import Clock
from millgate.errors import BrokerTimeout, BrokerUnavailable, MillgateError, NotDecodable

_GRACE: Final = 0.2  # seconds for the driver to say that it was too slow
_HOLD: Final = 1.0  # seconds that a call waits at once for a server that takes nothing
_FAREWELL: Final = 0.5  # seconds for the server to take note of an end
_PROBE: Final = "probe"  # the type of a message that nobody takes
_PROBING: Final = Properties(type=_PROBE).pack()


class Absent(BrokerUnavailable):
    """No brokerd serves this queue."""


class Wire:
    """One connection of one process, its thread, and the lines that it carries."""

    def __init__(self, parameters: pika.ConnectionParameters, calls: str, client: str) -> None:
        """Connect; `calls` is the queue that calls go to, `client` who they come from. Raises the driver's errors."""
        self.endpoint = f"{parameters.host}:{parameters.port}"
        self.pid = os.getpid()
        self.blocked = ""  # why the server takes nothing now
        self._taking = threading.Event()  # clear while it takes nothing
        self._taking.set()
        self._proved = threading.Event()  # clear from a doubt to its end
        self._proved.set()
        self._doubted = (0, 0)  # what had moved before the present doubt
        self.ended: MillgateError | None = None
        self._calls, self._client = calls, client
        self._lock = threading.Lock()
        self._lines: dict[str, Line] = {}
        self._numbers = itertools.count(1)
        self._problem: BaseException | None = None
        self._settled = threading.Event()  # connected, or not
        self.connection: Any = None
        self._channel: Any = None
        self._express: Express | None = None
        self._thread = threading.Thread(
            target=self._run, args=(parameters,), name="millgate-amqp", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError as error:  # the system counts threads as processes
            raise OSError(errno.EAGAIN, str(error)) from error
        if not self._settled.wait(parameters.stack_timeout + _GRACE):
            self._problem = TimeoutError()
            if self.connection is not None:
                self.abandon()
        if self._problem is not None:
            raise self._problem

    def line(self, clock: Clock) -> Line:
        """A new line."""
        with self._lock:
            line = Line(self, str(next(self._numbers)), clock)
            self._lines[line.number] = line
        return line

    def publish(self, number: str, payload: bytes, seconds: float) -> None:
        """Send a call by a line; it is void after that many seconds."""
        bodies = list(split(payload))
        said = Properties(
            type=PROTOCOL, app_id=self._client, correlation_id=number, reply_to=REPLY_TO,
            # of several parts each could expire alone, and what is left would make no sense
            expiration=str(max(1, int(seconds * 1000))) if len(bodies) == 1 else "",
        ).pack()  # fmt: skip
        for body in bodies:
            self._put_into(self._calls, body, said)

    def takes(self, seconds: float) -> bool:
        """Whether the server takes messages, now or within that many seconds."""
        return self._taking.wait(min(_HOLD, max(0.0, seconds)))

    def doubt(self) -> None:
        """An answer has not come: find out whether this connection carries anything."""
        if self.blocked or self.ended is not None or not self._proved.is_set():
            return
        self._doubted = self.moved()
        self._proved.clear()
        # What nobody takes comes back.
        self._put_into(f"{self._calls}.{_PROBE}", b"", _PROBING)

    def trusted(self, seconds: float) -> bool:
        """Whether there is no doubt, or it ends within that many seconds."""
        if self.blocked or self._proved.wait(max(0.0, seconds)):
            return True
        if self.moves(self._doubted):  # the proof comes after it
            self._proved.set()
        return self._proved.is_set()

    def moved(self) -> tuple[int, int]:
        """Bytes that have come and gone so far, of all lines."""
        return self._express.moved() if self._express is not None else (0, 0)

    def moves(self, before: tuple[int, int]) -> bool:
        """Whether it is in the middle of something, of whatever line, of which more has moved than had `before`: all
        else comes after that."""
        express, channel = self._express, self._channel
        return express is not None and express.moves(channel.channel_number, before)

    def abandon(self) -> None:
        """Break a connection that carries nothing, without a word to the server."""
        self._do(self._break)

    def drop(self, number: str) -> None:
        """Forget a line. A forked child has no say in it."""
        if self.pid == os.getpid():
            with self._lock:
                self._lines.pop(number, None)

    def close(self) -> None:
        """End the connection and the thread. A forked child only forgets them."""
        if self.pid != os.getpid() or self.ended is not None:
            return
        self._do(self._hang_up)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=_FAREWELL)
            if self._thread.is_alive():
                self.abandon()

    # --- in the thread ---------------------------------------------------------------------------

    def _run(self, parameters: pika.ConnectionParameters) -> None:
        try:
            self.connection = pika.SelectConnection(
                parameters,
                on_open_callback=self._opened,
                on_open_error_callback=lambda _connection, error: self._end(error),
                on_close_callback=lambda _connection, error: self._end(error),
            )
        except OSError as error:  # no descriptor is left for its loop
            self._over(error)
            return
        loop = self.connection.ioloop
        try:
            loop.start()
        except Exception as error:  # noqa: BLE001 -- whatever it is, a wire without a thread must not pass for one
            self._over(error)
        loop.close()

    def _opened(self, connection: Any) -> None:
        if self._problem is not None:  # nobody waits for it any more
            self._break()
            return
        self._express = Express(connection)
        connection.add_on_connection_blocked_callback(self._block)
        connection.add_on_connection_unblocked_callback(self._unblock)
        connection.channel(on_open_callback=self._ready)

    def _ready(self, channel: Any) -> None:
        assert self._express is not None
        self._channel = channel
        self._express.watch(channel.channel_number, self._arrived)
        channel.add_on_close_callback(self._channel_closed)
        channel.basic_consume(
            REPLY_TO, unheard, auto_ack=True, callback=lambda _frame: self._settled.set()
        )

    def _channel_closed(self, _channel: Any, reason: BaseException) -> None:
        """The server refuses something; without the channel the connection is of no use."""
        self._problem = self._problem or reason
        self._hang_up()

    def _hang_up(self) -> None:
        if self.connection.is_open:
            self.connection.close()

    def _end(self, error: BaseException) -> None:
        self._over(error)
        # What it does last comes first.
        self.connection.ioloop.call_later(0, self.connection.ioloop.stop)

    def _over(self, error: BaseException) -> None:
        self._problem = self._problem or error
        ended = refusals.closed(self._problem, self.endpoint)
        with self._lock:
            self.ended = ended
            lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            line.put(ended)
        for event in (self._settled, self._taking, self._proved):
            event.set()

    def _break(self) -> None:
        if self.connection.is_open:
            silent = exceptions.StreamLostError("the server was silent")
            self.connection._terminate_stream(silent)  # noqa: SLF001 -- what the driver does after missed heartbeats

    def _arrived(self, arrival: Arrival) -> None:
        properties = arrival.properties
        if arrival.kind is Kind.RETURNED and properties.type == _PROBE:
            self._proved.set()
            return
        line = self._lines.get(properties.correlation_id)
        if line is None:
            return
        if arrival.kind is Kind.RETURNED:
            line.put(Absent(f"{self.endpoint}: no brokerd serves {self._calls}"))
        else:
            line.put(arrival.body)

    def _block(self, _connection: Any, frame: Any) -> None:
        reason = frame.method.reason
        self.blocked = reason.decode() if isinstance(reason, bytes) else str(reason or "an alarm")
        self._taking.clear()

    def _unblock(self, _connection: Any, _frame: Any) -> None:
        self.blocked = ""
        self._taking.set()

    # --- in any thread ---------------------------------------------------------------------------

    def _put_into(self, queue: str, body: bytes, said: bytes) -> None:
        if self._express is not None and self._channel.is_open:  # else whoever waits has been told
            number = self._channel.channel_number
            self._express.publish(number, queue, body, said, mandatory=True)

    def _do(self, callback: Callable[[], None]) -> None:
        self.connection.ioloop.add_callback_threadsafe(callback)


class Line:
    """One call at a time over a wire; a Link for a session."""

    def __init__(self, wire: Wire, number: str, clock: Clock) -> None:
        self.number = number
        self._wire = wire
        self._clock = clock
        self._came: deque[bytes | MillgateError] = deque()
        self._joiner = Joiner(ANSWER_BOUND)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ringing = threading.Lock()  # a bell's number is another file's once it is closed

    def put(self, what: bytes | MillgateError) -> None:
        """Hand over a part of an answer, or what there is instead. Called by the wire's thread."""
        self._came.append(what)
        with self._ringing:
            if self._bell >= 0:
                os.eventfd_write(self._bell, 1)

    def send(self, payload: bytes, end: float) -> None:
        """Send one call, void after `end`. Raises Hangup, BrokerTimeout while the server takes nothing: what it would
        not take is kept by nobody."""
        if not self._wire.takes(end - self._clock.monotonic()):
            raise self._late()
        if self._wire.ended is not None:
            raise Hangup(str(self._wire.ended)) from self._wire.ended
        self._wire.publish(self.number, payload, end - self._clock.monotonic())

    def receive(self, end: float, silence: float = math.inf) -> bytes:
        """The next answer, when it comes before `end`, and nothing moves of it, or of what comes or goes before it, for
        no longer than `silence` seconds. Raises Absent, Hangup, BrokerTimeout."""
        while True:
            while self._came:
                what = self._came.popleft()
                if isinstance(what, MillgateError):
                    raise what
                try:
                    payload = self._joiner.feed(what)
                except NotDecodable as error:
                    raise Hangup(str(error)) from error
                if payload is not None:
                    return payload
            self._wait(end, silence)

    def readable(self, other: int, end: float) -> bool:
        """Wait for an answer, for the handle `other`, or for `end`; whether it was the first."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(other, select.POLLIN)
        while not self._came:
            left = max(0.0, end - self._clock.monotonic())
            if all(handle != self._bell for handle, _ in poll.poll(left * 1000)):
                return False
            self._heard()  # it may have rung for an answer that was taken already
        return True

    def close(self) -> None:
        """Give the line up."""
        self._wire.drop(self.number)
        if self._wire.pid != os.getpid():
            self._ringing = threading.Lock()  # in a forked child nobody is left to let go of it
        with self._ringing:
            bell, self._bell = self._bell, -1
            if bell >= 0:
                os.close(bell)

    def _wait(self, end: float, silence: float) -> None:
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        while True:
            before, left = self._wire.moved(), end - self._clock.monotonic()
            if left > 0 and poll.poll(min(left, silence) * 1000):
                self._heard()
                return
            if left <= silence or not self._wire.moves(before):
                self._wire.doubt()
                raise self._late()

    def _late(self) -> BrokerTimeout:
        endpoint, why = self._wire.endpoint, self._wire.blocked
        if why:
            return BrokerTimeout(
                f"{endpoint}: RabbitMQ takes no messages now ({why}); free memory or disk there, it goes on by itself"
            )
        return BrokerTimeout(
            f"{endpoint}: no answer in time; the call may or may not have taken effect"
        )

    def _heard(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
