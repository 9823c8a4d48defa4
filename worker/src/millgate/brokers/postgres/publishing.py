"""Producing: publish, fire a schedule's slot, send inside a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from millgate.brokers.postgres import arrays, drafts
from millgate.brokers.postgres.arrays import Ints, Smallints, Texts
from millgate.brokers.postgres.connection import Connection
from millgate.brokers.postgres.direct import Direct, only_text
from millgate.brokers.postgres.refusals import translate
from millgate.brokers.postgres.session import VERSION, Session, new_call
from millgate.brokers.postgres.url import Target
from millgate.clock import Clock
from millgate.errors import InvalidInput
from millgate.message import Group, Message, Receipt
from millgate.rules import check_group, check_name


class Publishing(Session):
    """The verbs of whoever produces."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        super().__init__(target, deadline, clock)
        self._ensured: set[tuple[str, int]] = set()
        numbered = ", ".join(f"${number}" for number in range(1, drafts.PLAIN + 1))
        post = f'SELECT o_holder FROM "{target.schema}".post_{VERSION}({numbered})'  # noqa: S608 -- a checked name
        self._direct = Direct(post, drafts.PLAIN)

    def publish(self, messages: Sequence[Message], group: Group | None = None) -> list[Receipt]:
        """Store messages, all or none, in order."""
        if (
            group is None
            and len(messages) == 1
            and (plain := drafts.plain(messages[0])) is not None
        ):
            return [self._post(messages[0].id, plain)]
        sent, call = drafts.batch(messages), new_call()
        if group is None:
            if not messages:
                return []
            return _receipts(
                sent, self.rows("publish", call, *sent.columns, drafts.chained(messages))[0]
            )
        check_group(group, messages)
        parameters = (call, *sent.columns, drafts.chained([*messages, group.callback]))
        whole = group

        def publish(connection: Connection, _: bool) -> list[Receipt]:
            answer = self.run(connection, "publish", parameters)[0] if messages else (None, None)
            receipts = _receipts(sent, answer)
            self._gather(connection, whole, messages, receipts)
            return receipts

        return self.within(publish)

    def _post(self, name: str, plain: Sequence[bytes | None]) -> Receipt:
        call = drafts.number(new_call())
        [holders] = self.pool.call(
            lambda connection, _: self._direct.call(connection, (call, *plain))
        )
        holder = only_text(holders)
        return Receipt(name) if holder is None else Receipt(holder, duplicate=True)

    def fire(self, schedule: str, slot: float, messages: Sequence[Message]) -> bool:
        """Publish for one slot of a schedule, once."""
        check_name("a schedule's name", schedule)
        sent, call = drafts.batch(messages), new_call()

        def fire(connection: Connection, repeated: bool) -> bool:
            mark = (schedule, float(slot), call)
            if not self.run(connection, "fire", mark)[0][0]:
                return repeated and bool(self.run(connection, "fired", mark)[0][0])
            if messages:
                chained = drafts.chained(messages)
                self.run(connection, "publish", (call, *sent.columns, chained))
            return True

        return self.within(fire)

    def schedules(self) -> Mapping[str, float]:
        """The last slot that each schedule fired."""
        return {row[0]: row[1] for row in self.rows("schedules")}

    def publish_in(
        self, connection: psycopg.Connection[Any], messages: Sequence[Message]
    ) -> list[Receipt]:
        """Store messages in the caller's open transaction: they exist from its commit on, or never.

        The connection is psycopg's, to the database of this queue. Nothing that the queue's own verbs lock is held,
        however long the transaction lasts; `max_waiting` is not looked at. Raises as `publish`, and psycopg's errors.
        """
        if not isinstance(connection, psycopg.Connection):
            raise InvalidInput(
                f"connection is a {type(connection).__name__}; give a psycopg.Connection (of SQLAlchemy: "
                "session.connection().connection.driver_connection)"
            )
        sent = drafts.batch(messages)
        if not messages:
            return []
        self._ensure(messages)
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            arrays.register(cursor.adapters)
            parameters = (new_call(), *sent.columns)
            try:
                cursor.execute(self.statement("send", len(parameters)), parameters, prepare=False)
            except psycopg.Error as error:
                if (error.sqlstate or "").startswith("MG"):
                    raise translate(error, self.target.endpoint) from error
                raise
            row = cursor.fetchone()
        assert row is not None, "one row"
        return _receipts(sent, row)

    def _ensure(self, messages: Sequence[Message]) -> None:
        """Let topics appear in a transaction of our own: a long one of the caller's would hold up all other users."""
        used = {(message.topic, message.priority) for message in messages} - self._ensured
        if used:
            names, priorities = zip(*used, strict=True)
            self.rows("ensure", Texts(names), Smallints(priorities))
            self._ensured |= used

    def _gather(
        self,
        connection: Connection,
        group: Group,
        messages: Sequence[Message],
        receipts: Sequence[Receipt],
    ) -> None:
        real = {message.id: receipt.id for message, receipt in zip(messages, receipts, strict=True)}
        members = tuple(real.get(member, member) for member in group.members)
        watches = list(drafts.watches(group, messages, real))
        watched, waiting, places, steps = zip(*watches, strict=True) if watches else ((),) * 4
        old = Texts(watched) if any(receipt.duplicate for receipt in receipts) else None
        columns = (old, Texts(watched), Texts(waiting), Ints(places), Ints(steps))
        callback = replace(group.callback, gather=members)
        self.run(
            connection,
            "group",
            (group.id, group.require_all, *columns, *drafts.single(callback)),
        )


def _receipts(sent: drafts.Batch, answer: tuple[Any, ...]) -> list[Receipt]:
    places, holders = answer
    receipts = [Receipt(message.id) for message in sent.messages]
    for at, holder in zip(places or (), holders or (), strict=True):
        receipts[sent.places[at - 1]] = Receipt(holder, duplicate=True)
    if len(sent.places) < len(receipts):  # the rest repeats an id of this call
        first = {sent.messages[place].id: place for place in sent.places}
        for place in set(range(len(receipts))).difference(sent.places):
            original = receipts[first[sent.messages[place].id]]
            receipts[place] = Receipt(original.id, duplicate=True)
    return receipts
