"""What the server leaves to whoever comes by: dead letters on their way to another topic, topics with new gates."""

from __future__ import annotations

from typing import Any, Final

from millgate.brokers.forwarded import forwarded
from millgate.brokers.postgres import failures
from millgate.brokers.postgres.session import Session
from millgate.errors import NotDecodable
from millgate.message import Message, with_record

_BATCH: Final = 100
_PASSED: Final = 1000  # messages that pass new gates in one step, which no other verb runs beside
_WHILE: Final = 0.2  # seconds of such steps in one tick


class Forwarding(Session):
    """The server marks what is to be carried over in the step that buries it; whoever learns of it does it next."""

    def catch_up(self) -> None:
        """Do a part of what is left."""
        self.forward()
        self.regate(_WHILE)

    def regate(self, seconds: float) -> None:
        """Let what waits in topics that are shut pass their new gates, step by step, for so long at most."""
        end = self.clock.monotonic() + seconds
        more = True
        while more and self.clock.monotonic() < end:
            more = bool(self.value("regate", _PASSED))

    def forward(self) -> None:
        """Carry over what is marked, each in one step; another client may do the same meanwhile."""
        rows = self.rows("forwards", _BATCH)
        for row in rows:
            copy = _copy(row)
            values = (None,) * 6
            if copy is not None:
                key, ttl = copy.key, copy.result_ttl
                values = (copy.id, copy.topic, copy.priority, copy.record(), key, ttl)  # type: ignore[assignment]
            self.rows("forward", row[0], *values)


def _copy(row: tuple[Any, ...]) -> Message | None:
    seq, name, topic, reason, attempt, failure, priority, key, ttl, record, target = row
    if target is None:
        return None
    bare = Message(
        id=name, topic=topic, task="", body=b"", priority=priority, key=key, result_ttl=ttl
    )
    try:
        dead = with_record(bare, record)
    except NotDecodable:
        return None
    return forwarded(dead, reason, attempt, failures.unpack(failure), target, seq)
