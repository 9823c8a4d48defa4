"""The queue for calls as its owner has it: calls come in, answers go out, each turn's in one piece."""

from __future__ import annotations

from collections.abc import Callable
from logging import getLogger
from typing import Any, Final

from millgate.brokers.rabbitmq.express import Express, unheard
from millgate.brokers.rabbitmq.lines import Line, Lines, split
from millgate.brokers.rabbitmq.packets import Arrival, Kind, Properties, acknowledgement
from millgate.brokers.rabbitmq.streams import PROBE
from millgate.brokers.served.desk import Came
from millgate.clock import Clock
from millgate.errors import NotDecodable

#: Messages that the server sends before the first of them is taken.
AHEAD: Final = 100
_TOGETHER: Final = AHEAD // 4  # of them that are acknowledged in one
_MUCH: Final = 65536  # bytes of an answer that does not wait for the others
_PROOF: Final = "millgate-proof"
_PROVING: Final = Properties(type=_PROOF).pack()

log = getLogger("millgate.brokers.rabbitmq")


class Mailbox:
    """What has come and what is to go, over all of a brokerd's connections. Lines outlive them."""

    def __init__(
        self,
        queue: str,
        name: str,
        clock: Clock,
        leave: Callable[[Line], None],
        proved: Callable[[], None],
    ) -> None:
        """`name` is the queue's on the server, `leave` hears of lines that ask anew or are silent, `proved` of each
        `prove` that came round."""
        self._name = name
        self._clock = clock
        self._leave = leave
        self._proved = proved
        self._lines = Lines(queue)
        self._calls: list[Came] = []
        self._answers: list[bytes] = []
        self._tag = 0  # of the last delivery
        self._acknowledged = 0  # the tag of the last that the server was told of
        self._due = False  # whether it is to be told now
        self.stirred = False  # whether something has come for which a turn is due
        self._express: Any = None
        self._number = 0  # the channel's

    def open(self, channel: Any, express: Express) -> None:
        """Begin to take calls: `channel` is the driver's, of the connection that has the queue."""
        self._express = express
        self._number = channel.channel_number
        express.watch(self._number, self._came)
        # What is too much for one turn stays with the server, where it is void in time; here it would be kept.
        channel.basic_qos(prefetch_count=AHEAD)
        channel.basic_consume(self._name, unheard)

    def close(self) -> None:
        """The connection is gone, and with it what has come and was to go."""
        self._calls.clear()
        self._answers.clear()
        self._tag = self._acknowledged = 0
        self._due = self.stirred = False

    def taken(self, monotonic: float) -> list[Came]:
        """The calls that have come since this was last asked."""
        self.stirred = False
        for line in self._lines.silent(monotonic):
            self._leave(line)
        calls, self._calls = self._calls, []
        return calls

    def send(self, line: Line, payload: bytes) -> None:
        """Answer a call; it goes with `flush`, or before that."""
        said = Properties(correlation_id=line.number).pack()
        for body in split(payload):
            self._answers.append(self._express.frames(self._number, line.reply_to, body, said))
            if len(body) > _MUCH:
                self.flush()

    def flush(self) -> None:
        """Let all answers go, and more calls come.

        Only so many calls are acknowledged at once that the next are on their way in time: the server forgets what
        was delivered when this connection ends, acknowledged or not. What is no call comes regularly, and takes what
        came before it along, so that nothing waits for long.
        """
        if self._due or self._tag - self._acknowledged >= _TOGETHER:
            self._answers.append(acknowledgement(self._number, self._tag))
            self._acknowledged, self._due = self._tag, False
        if self._answers:
            data, self._answers = b"".join(self._answers), []
            self._express.send(data)

    def prove(self) -> None:
        """Send what comes back when the server takes messages."""
        self._express.publish(self._number, self._name, b"", _PROVING)

    def _came(self, arrival: Arrival) -> None:
        if arrival.kind is not Kind.DELIVERED:
            return
        self._tag, self.stirred = arrival.tag, True
        properties = arrival.properties
        if properties.type in (PROBE, _PROOF):
            self._due = True
            if properties.type == _PROOF:
                self._proved()
            return
        line = Line(properties.reply_to, properties.correlation_id)
        try:
            call = self._lines.take(self._clock.monotonic(), line, properties, arrival.body)
            if call is not None:
                self._leave(line)
                self._calls.append(Came(line, *call))
        except NotDecodable as error:
            log.warning("passing over a message in %s: %s", self._name, error)
