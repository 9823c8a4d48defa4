"""Which messages of a publish that is not stored yet are due as soon as it is. Pure."""

from __future__ import annotations

from typing import Any, Final

from millgate.brokers.served import values

_TOPIC: Final = values.HEAD.index("topic")
#: What may keep a message waiting, or from being stored a second time.
_HOLDS: Final = tuple(values.HEAD.index(name) for name in ("delay", "at", "unique"))


def topics(args: list[Any]) -> list[str]:
    """The topic of each message that waits for nothing. What makes no sense is for whoever carries the call out."""
    try:
        due = [message for message in args[0] if not any(message[hold] for hold in _HOLDS)]
        return [topic for message in due if isinstance(topic := message[_TOPIC], str)]
    except (IndexError, KeyError, TypeError):
        return []
