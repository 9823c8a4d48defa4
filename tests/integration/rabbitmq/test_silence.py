"""A server that lives and does not do what it is asked: nobody waits for ever on a connection that brings no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millgate.brokers.rabbitmq import posting, vigil
from millgate.brokers.rabbitmq.connection import LOST
from millgate.brokers.rabbitmq.express import Express
from millgate.brokers.rabbitmq.names import Names
from millgate.brokers.rabbitmq.pump import Pump
from millgate.brokers.rabbitmq.records import Entry, Kind
from millgate.brokers.rabbitmq.streams import Streams
from support import servers

Connect = Callable[..., Any]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds instead of a minute."""
    monkeypatch.setattr(vigil, "SLOW", 0.3)
    monkeypatch.setattr(posting, "SLOW", 0.3)
    monkeypatch.setattr(vigil, "LONGEST", 1.0)


@pytest.fixture
def stream(connection: Connect, queue: str) -> str:
    """A stream with one entry."""
    name = Names(queue).head
    streams = Streams(connection())
    streams.declare(name)
    streams.append(name, Entry(Kind.MARK, 1, 1))
    return name


@pytest.fixture
def deaf(stream: str) -> Iterator[Callable[[], None]]:
    """Lets the stream's writer stand still until it is called; its connections live on."""
    server = servers.rabbitmq()
    found = f'rabbit_amqqueue:lookup({{resource, <<"/">>, queue, <<"{stream}">>}})'
    writer = f"amqqueue:get_pid(element(2, {found}))"
    heard = False

    def hear() -> None:
        nonlocal heard
        if not heard:
            server.ctl("eval", f"sys:resume({writer}).")
        heard = True

    server.ctl("eval", f"sys:suspend({writer}).")
    yield hear
    hear()


@pytest.mark.parametrize("often", [False, True])
def test_a_stream_that_confirms_nothing_ends_the_connection_and_the_next_one_goes_on(
    connection: Connect, stream: str, deaf: Callable[[], None], often: bool
) -> None:
    made = connection()
    ways = (Express(made._impl), Pump(made)) if often else (None, None)
    streams = Streams(made, *ways)
    with pytest.raises(vigil.Unanswered, match=stream) as caught:
        streams.append(stream, Entry(Kind.MARK, 1, 2))
    assert isinstance(caught.value, LOST)  # a brokerd connects anew
    assert made.is_closed
    deaf()
    Streams(connection()).append(stream, Entry(Kind.MARK, 1, 3))


def test_an_alarm_is_an_answer(connection: Connect, stream: str, deaf: Callable[[], None]) -> None:
    made = connection()
    streams = Streams(made)
    streams._vigil._block()  # what the driver calls when the server says so
    late: list[bool] = []

    def hear() -> None:
        late.append(True)
        deaf()

    made._impl._adapter_call_later(3 * vigil.LONGEST, hear)
    streams.append(stream, Entry(Kind.MARK, 1, 2))
    assert late
