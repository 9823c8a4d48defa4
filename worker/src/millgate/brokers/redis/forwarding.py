"""Carrying dead letters over to the topic that their own topic names."""

from __future__ import annotations

from typing import Any, Final

import msgpack

from millgate.brokers.forwarded import forwarded
from millgate.brokers.redis import drafts, failures, rows
from millgate.brokers.redis.session import Session
from millgate.errors import NotDecodable
from millgate.message import Message

_BATCH: Final = 100


class Forwarding(Session):
    """A script marks what is to be carried over in the step that buries it; whoever learns of it does it next."""

    def forward(self) -> None:
        """Carry over what is marked, each in one step; another client may do the same meanwhile."""
        flat = self.run("forwards", _BATCH)
        for serial, data in zip(flat[::2], flat[1::2], strict=True):
            name, letter = msgpack.unpackb(data, raw=True)
            copy = _copy(name.decode(), letter)
            self.run("forward", serial, *drafts.drafts([copy] if copy is not None else []))


def _copy(name: str, letter: list[Any]) -> Message | None:
    topic, reason, _, failure, _, _, _, attempt, _, serial = letter[:10]
    target = letter[14].decode()
    try:
        dead = rows.read(letter[12]).message(name, topic.decode())
    except NotDecodable:
        return None
    if dead is None or not target:
        return None
    return forwarded(dead, reason.decode(), attempt, failures.unpack(failure), target, serial)
