"""What answers a greeting is AMQP, something else, or nothing that could be told apart from either."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest

from millgate.brokers.address import Address
from millgate.brokers.rabbitmq.greeting import foreign


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", True),
        (b"-ERR unknown command\r\n", True),
        (b"\x01\x00\x00\x00\x00", False),
        (b"AMQP\x00\x00\x09\x01", False),
        (b"", False),
    ],
)
def test_the_first_byte_tells(answer: bytes, told: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def talk() -> None:
            client, _ = listener.accept()
            with client, suppress(OSError):
                client.recv(100)
                client.sendall(answer)

        thread = threading.Thread(target=talk)
        thread.start()
        assert foreign(Address("127.0.0.1", listener.getsockname()[1])) is told
        thread.join()


def test_nobody_and_silence_tell_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
        assert not foreign(address), "it says nothing"
    assert not foreign(address), "nobody listens"
