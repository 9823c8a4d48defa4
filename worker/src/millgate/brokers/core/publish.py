"""Publishing: everything is checked before anything is stored, what is known already is answered and not stored."""

from __future__ import annotations

from collections.abc import Sequence

from millgate.brokers.base import MAX_BATCH
from millgate.brokers.core import finish, groups
from millgate.brokers.core.accept import accept, receipts_for
from millgate.brokers.core.store import Store
from millgate.errors import InvalidInput, PayloadTooLarge, QueueFull, TopicUndeclared
from millgate.message import Group, Message, Receipt
from millgate.queues import Undeclared
from millgate.rules import check_whole


def publish(
    store: Store, now: float, messages: Sequence[Message], group: Group | None = None
) -> list[Receipt]:
    """Store messages, all or none; one receipt each, in order."""
    if len(messages) > MAX_BATCH:
        raise InvalidInput(f"{len(messages)} messages in one call; publish at most {MAX_BATCH}")
    for message in messages:
        _check_declared(store, message)
    records = [checked(store, message) for message in messages]
    if group is not None:
        groups.check(store, group, messages)
        _check_declared(store, group.callback)
        checked(store, group.callback)
    receipts = receipts_for(store, messages)
    _check_room(store, sum(not receipt.duplicate for receipt in receipts))
    for message, record, receipt in zip(messages, records, receipts, strict=True):
        if not receipt.duplicate:
            accept(store, now, message, record)
    if group is not None:
        gathering = groups.gather(store, group, messages, receipts)
        if gathering is not None:
            finish.close(store, now, gathering)
    return receipts


def checked(store: Store, message: Message) -> bytes:
    """The record of a message that may be stored. Raises InvalidMessage, PayloadTooLarge."""
    check_whole(message)
    record = message.record()
    most = store.policy(message.topic).payload_max
    if len(record) > most:
        raise PayloadTooLarge(
            f"{message.task or 'task'} {message.id}: {len(record)} bytes, topic {message.topic!r} takes {most}; "
            "send a reference instead of the data"
        )
    return record


def _check_declared(store: Store, message: Message) -> None:
    config = store.config
    if config.queue.undeclared is Undeclared.ALLOW:
        return
    for step in (message, *message.chain):
        if step.topic not in config.topics:
            known = ", ".join(sorted(config.topics)[:10]) or "none"
            raise TopicUndeclared(
                f"topic {step.topic!r} is not declared in this queue; declared are: {known}"
            )


def _check_room(store: Store, count: int) -> None:
    most = store.config.queue.max_waiting
    waiting = len(store.rows) - store.leased
    if most is not None and count and waiting + count > most:
        raise QueueFull(
            f"the queue holds {waiting} of at most {most} messages; {count} more do not fit, "
            "nothing of this call was stored"
        )
