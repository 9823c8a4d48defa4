"""Whether what listens at an address speaks AMQP: asked only when a connection failed and the driver cannot say why."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

from millgate.brokers.address import Address

_HEADER: Final = b"AMQP\x00\x00\x09\x01"
#: What an AMQP server's first byte can be: a method's frame, or the header of the version that it would speak.
_FIRST: Final = (b"\x01", b"A")
_SECONDS: Final = 0.3


def foreign(address: Address) -> bool:
    """Whether something answers there that is no AMQP server; False when nothing answers. Takes 0.3 s at most."""
    with (
        suppress(OSError),
        socket.create_connection((address.host, address.port), timeout=_SECONDS) as peer,
    ):
        peer.sendall(_HEADER)
        said = peer.recv(1)
        return said != b"" and said not in _FIRST
    return False
