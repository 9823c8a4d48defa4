"""Schedules: each slot fires once, and the mark and the messages are one step."""

from __future__ import annotations

from collections.abc import Sequence

from millgate.brokers.core import publish
from millgate.brokers.core.store import Store
from millgate.message import Message
from millgate.rules import check_name


def fire(store: Store, now: float, schedule: str, slot: float, messages: Sequence[Message]) -> bool:
    """Publish for one slot; False: it, or a later one, has fired. What publish raises leaves the slot unfired."""
    check_name("a schedule's name", schedule)
    last = store.slots.get(schedule)
    if last is not None and slot <= last:
        return False
    publish.publish(store, now, messages)
    store.slots[schedule] = slot
    return True
