"""The inbox of a brokerd without a server: what it tells the server of what it got, and when a turn is due."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from millgate.brokers.rabbitmq.lines import PROTOCOL, Line, split
from millgate.brokers.rabbitmq.mailbox import AHEAD, Mailbox
from millgate.brokers.rabbitmq.packets import Arrival, Kind, Properties, Take, acknowledgement
from millgate.brokers.served import frames
from support.clock import FakeClock

_CHANNEL = 3


class Way:
    """Takes the place of an express way: hands over what came, and keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._take: Take | None = None
        self._tag = 0

    def watch(self, channel: int, take: Take) -> None:
        assert channel == _CHANNEL
        self._take = take

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def frames(self, _channel: int, _queue: str, body: bytes, _said: bytes) -> bytes:
        return body

    def publish(self, _channel: int, _queue: str, body: bytes, said: bytes) -> None:
        """What is put into the inbox comes out of it."""
        self.deliver(said, body)

    def deliver(self, said: bytes, body: bytes) -> None:
        assert self._take is not None
        self._tag += 1
        self._take(Arrival(Kind.DELIVERED, self._tag, said, body))

    def call(self) -> None:
        """Let a call come."""
        said = Properties(
            type=PROTOCOL, app_id="c", reply_to="amq.rabbitmq.reply-to.x", correlation_id="1"
        )
        (body,) = split(frames.pack([self._tag, 0, "stats", []]))
        self.deliver(said.pack(), body)


@pytest.fixture
def way() -> Way:
    return Way()


@pytest.fixture
def mailbox(way: Way) -> Mailbox:
    made = Mailbox("q", "millgate.q.calls", FakeClock(), lambda _: None, lambda: None)
    channel = SimpleNamespace(
        channel_number=_CHANNEL, basic_qos=lambda **_: None, basic_consume=lambda *_: None
    )
    made.open(channel, way)  # type: ignore[arg-type]
    return made


def test_a_turn_is_due_once_for_what_has_come(mailbox: Mailbox, way: Way) -> None:
    assert not mailbox.stirred
    way.call()
    way.call()
    assert mailbox.stirred
    assert len(mailbox.taken(0.0)) == 2
    assert not mailbox.stirred
    assert mailbox.taken(0.0) == []


def test_calls_are_acknowledged_together_long_before_the_server_waits_for_it(
    mailbox: Mailbox, way: Way
) -> None:
    held = most = 0
    for number in range(1, 4 * AHEAD):
        way.call()
        held += 1
        mailbox.flush()
        if way.sent:
            assert way.sent == [acknowledgement(_CHANNEL, number)]
            way.sent.clear()
            held = 0
        most = max(most, held)
    assert 1 < most < AHEAD / 2


def test_what_comes_regularly_takes_all_acknowledgements_along(mailbox: Mailbox, way: Way) -> None:
    way.call()
    mailbox.flush()
    assert way.sent == []
    mailbox.prove()
    mailbox.flush()
    assert way.sent == [acknowledgement(_CHANNEL, 2)]
    mailbox.flush()
    assert len(way.sent) == 1


def test_an_answer_does_not_wait_for_acknowledgements(mailbox: Mailbox, way: Way) -> None:
    way.call()
    mailbox.send(Line("amq.rabbitmq.reply-to.x", "1"), b"answer")
    mailbox.flush()
    assert way.sent == [b"\x00answer"]


def test_another_connection_begins_to_count_anew(mailbox: Mailbox, way: Way) -> None:
    way.call()
    mailbox.close()
    assert not mailbox.stirred
    other: Any = Way()
    channel = SimpleNamespace(
        channel_number=_CHANNEL, basic_qos=lambda **_: None, basic_consume=lambda *_: None
    )
    mailbox.open(channel, other)
    mailbox.prove()
    mailbox.flush()
    assert other.sent == [acknowledgement(_CHANNEL, 1)]
