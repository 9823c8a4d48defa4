"""A client's connection: one thread speaks to the server, any thread calls by a line of its own.

Calls and answers are messages that nobody needs after this moment, so neither is stored or confirmed: a call that is
lost is repeated, and the brokerd answers a repeat from memory.
"""

from __future__ import annotations

import itertools
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pika

from millgate.brokers.rabbitmq import refusals
from millgate.brokers.rabbitmq.connection import LOST
from millgate.brokers.rabbitmq.lines import PROTOCOL, REPLY_TO, Joiner, split
from millgate.brokers.served.frames import ANSWER_BOUND, FrameTooLarge
from millgate.brokers.served.link import Hangup
from millgate.clock import Clock
from millgate.errors import BrokerTimeout, BrokerUnavailable, MillgateError


class Absent(BrokerUnavailable):
    """No brokerd serves this queue."""


class Wire:
    """One connection of one process, its thread, and the lines that it carries."""

    def __init__(self, connection: Any, calls: str, client: str, endpoint: str) -> None:
        """`calls` is the queue that calls go to, `client` who they come from."""
        self.endpoint = endpoint
        self.pid = os.getpid()
        self.blocked = ""  # why the server takes nothing now
        self.ended: MillgateError | None = None
        self._connection = connection
        self._calls, self._client = calls, client
        self._lock = threading.Lock()
        self._lines: dict[str, Line] = {}
        self._numbers = itertools.count(1)
        self._closing = False
        self._channel = connection.channel()
        self._channel.add_on_return_callback(self._returned)
        self._channel.basic_consume(REPLY_TO, self._answered, auto_ack=True)
        connection.add_on_connection_blocked_callback(self._block)
        connection.add_on_connection_unblocked_callback(self._unblock)
        self._thread = threading.Thread(target=self._run, name="millgate-amqp", daemon=True)
        self._thread.start()

    def line(self, clock: Clock) -> Line:
        """A new line."""
        with self._lock:
            line = Line(self, str(next(self._numbers)), clock)
            self._lines[line.number] = line
        return line

    def publish(self, number: str, payload: bytes, seconds: float) -> None:
        """Send a call by a line; it is void after that many seconds. Raises Hangup."""
        self._do(partial(self._publish, number, payload, seconds))

    def drop(self, number: str) -> None:
        """Forget a line. A forked child has no say in it."""
        if self.pid == os.getpid():
            with self._lock:
                self._lines.pop(number, None)

    def close(self) -> None:
        """End the thread and the connection. A forked child only forgets them."""
        if self.pid != os.getpid():
            return
        self._closing = True
        with suppress(Hangup):
            self._do(lambda: None)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    # --- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                self._connection.process_data_events(time_limit=None)
            self._connection.close()
            self._end(Hangup("this connection was closed"))
        except LOST as error:
            self._end(refusals.closed(error, self.endpoint))

    def _end(self, error: MillgateError) -> None:
        with self._lock:
            self.ended = error
            lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            line.put(error)

    def _publish(self, number: str, payload: bytes, seconds: float) -> None:
        bodies = list(split(payload))
        properties = pika.BasicProperties(
            type=PROTOCOL, app_id=self._client, correlation_id=number, reply_to=REPLY_TO,
            # of several parts each could expire alone, and what is left would make no sense
            expiration=str(max(1, int(seconds * 1000))) if len(bodies) == 1 else None,
        )  # fmt: skip
        for body in bodies:
            self._channel.basic_publish("", self._calls, body, properties, mandatory=True)

    def _returned(self, _channel: Any, _method: Any, properties: Any, _body: bytes) -> None:
        self._put(properties, Absent(f"{self.endpoint}: no brokerd serves {self._calls}"))

    def _answered(self, _channel: Any, _method: Any, properties: Any, body: bytes) -> None:
        self._put(properties, body)

    def _put(self, properties: Any, what: bytes | MillgateError) -> None:
        line = self._lines.get(properties.correlation_id or "")
        if line is not None:
            line.put(what)

    def _block(self, _connection: Any, frame: Any) -> None:
        reason = frame.method.reason
        self.blocked = reason.decode() if isinstance(reason, bytes) else str(reason or "an alarm")

    def _unblock(self, _connection: Any, _frame: Any) -> None:
        self.blocked = ""

    # --- in any thread ---------------------------------------------------------------------------

    def _do(self, callback: Callable[[], None]) -> None:
        try:
            self._connection.add_callback_threadsafe(callback)
        except LOST as error:
            raise Hangup(f"{self.endpoint}: the connection was lost") from error


class Line:
    """One call at a time over a wire; a Link for a session."""

    def __init__(self, wire: Wire, number: str, clock: Clock) -> None:
        self.number = number
        self._wire = wire
        self._clock = clock
        self._came: deque[bytes | MillgateError] = deque()
        self._joiner = Joiner(ANSWER_BOUND)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def put(self, what: bytes | MillgateError) -> None:
        """Hand over a part of an answer, or what there is instead. Called by the wire's thread."""
        self._came.append(what)
        with suppress(OSError):  # closed meanwhile
            os.eventfd_write(self._bell, 1)

    def send(self, payload: bytes, end: float) -> None:
        """Send one call, void after `end`. Raises Hangup."""
        if self._wire.ended is not None:
            raise Hangup(str(self._wire.ended))
        self._wire.publish(self.number, payload, end - self._clock.monotonic())

    def receive(self, end: float) -> bytes:
        """The next answer, when it comes before `end`. Raises Absent, Hangup, BrokerTimeout."""
        while True:
            while self._came:
                what = self._came.popleft()
                if isinstance(what, MillgateError):
                    raise what
                try:
                    payload = self._joiner.feed(what)
                except FrameTooLarge as error:
                    raise Hangup(str(error)) from error
                if payload is not None:
                    return payload
            self._wait(end)

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
        bell, self._bell = self._bell, -1
        if bell >= 0:
            os.close(bell)

    def _wait(self, end: float) -> None:
        left = end - self._clock.monotonic()
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        if left <= 0 or not poll.poll(left * 1000):
            why = self._wire.blocked
            if why:
                raise BrokerTimeout(
                    f"{self._wire.endpoint}: RabbitMQ takes no messages now ({why}); free memory or disk there,"
                    " it goes on by itself"
                )
            raise BrokerTimeout
        self._heard()

    def _heard(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
