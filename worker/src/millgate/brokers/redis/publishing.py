"""Producing: publish, and fire a schedule's slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from millgate.brokers.redis import drafts
from millgate.brokers.redis.forwarding import Forwarding
from millgate.brokers.redis.session import new_call
from millgate.errors import BrokerError
from millgate.message import Group, Message, Receipt
from millgate.rules import check_group, check_name

_NO_SCHEDULE: Final = ("", "", "")
_STEP: Final = 150  # messages that pass their gates in one call
_SPARE: Final = 3  # calls for what others left there


class Publishing(Forwarding):
    """The verbs of whoever produces."""

    def publish(self, messages: Sequence[Message], group: Group | None = None) -> list[Receipt]:
        """Store messages, all or none, in order."""
        if group is None and len(messages) == 1 and not messages[0].chain:
            return [self._send(messages[0])]
        sent = drafts.runs(messages)
        if group is None:
            if not messages:
                return []
            head = [*_NO_SCHEDULE, *drafts.chained(messages), ""]
            return self._stored(messages, *self._produce("publish", *head, *sent)[1:])
        check_group(group, messages)
        real = {message.id: message.id for message in messages}
        while True:
            members = tuple(real.get(member, member) for member in group.members)
            callback = replace(group.callback, gather=members)
            answer, doubles, crowded = self._produce(
                "publish",
                *(*_NO_SCHEDULE, *drafts.chained([*messages, group.callback])),
                drafts.gathering(group, messages, real),
                *drafts.draft(callback),
                *sent,
            )
            receipts = self._receipts(messages, doubles)
            if answer != b"again":
                return self._stored(messages, doubles, crowded)
            real = dict(reversed([(m.id, r.id) for m, r in zip(messages, receipts, strict=True)]))

    def _send(self, message: Message) -> Receipt:
        """One message that brings no others with it, as most are sent: by a script that has to do nothing else."""
        holder = self._produce("send", *drafts.runs((message,)))
        if holder is None:
            return Receipt(message.id)
        return Receipt(holder.decode(), duplicate=True)

    def fire(self, schedule: str, slot: float, messages: Sequence[Message]) -> bool:
        """Publish for one slot of a schedule, once."""
        check_name("a schedule's name", schedule)
        head = [schedule, repr(float(slot)), new_call(), *drafts.chained(messages), ""]
        answer = self._produce("publish", *head, *drafts.runs(messages))
        if answer is not None:
            self._stored(messages, *answer[1:])
        return answer is not None

    def schedules(self) -> Mapping[str, float]:
        """The last slot that each schedule fired."""
        flat = self.run("schedules")
        return {
            name.decode(): float(slot) for name, slot in zip(flat[::2], flat[1::2], strict=True)
        }

    def _produce(self, verb: str, *arguments: Any) -> Any:
        """What the script answers, once as many replicas as the URL asks for have what it stored."""
        return self.run(verb, *arguments, replicas=self.target.replicas)

    def _stored(
        self, messages: Sequence[Message], doubles: Sequence[Any], crowded: int
    ) -> list[Receipt]:
        """What was answered; messages of which more came than pass the gates in one step are let through in several.

        They are stored by then: should this end early, whoever calls next goes on.
        """
        if crowded:
            with suppress(BrokerError):
                self._let_through(len(messages))
        return self._receipts(messages, doubles)

    def _let_through(self, count: int) -> None:
        for _ in range(count // _STEP + _SPARE):
            if not self.run("regate"):
                return

    @staticmethod
    def _receipts(messages: Sequence[Message], doubles: Sequence[Any]) -> list[Receipt]:
        receipts = [Receipt(message.id) for message in messages]
        for place, holder in zip(doubles[::2], doubles[1::2], strict=True):
            receipts[place - 1] = Receipt(holder.decode(), duplicate=True)
        return receipts
