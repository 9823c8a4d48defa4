"""Producing: publish, and fire a schedule's slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from millgate.brokers.redis import drafts
from millgate.brokers.redis.forwarding import Forwarding
from millgate.brokers.redis.session import new_call
from millgate.errors import BrokerError
from millgate.frozen import dataclass
from millgate.message import Group, Message, Receipt
from millgate.rules import check_group, check_name

_STEP: Final = 150  # messages that pass their gates in one call
_SPARE: Final = 3  # calls for what others left there


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that are stored in one step, in as many calls as it takes, with what stands before and behind them."""

    messages: Sequence[Message]
    parts: Sequence[drafts.Part]
    schedule: tuple[str, str, str] = ("", "", "")
    group: Sequence[Any] = ("",)
    callback: Message | None = None

    @property
    def large(self) -> bool:
        """Whether one call would hold the server for too long."""
        members = len(self.messages) if self.callback is not None else 0
        weight = sum(part.weight for part in self.parts) + members * drafts.MEMBER
        return weight > drafts.MOST

    def staged(self) -> Iterator[list[Any]]:
        """Each part, as it is laid aside."""
        ends = [*(part.start for part in self.parts[1:]), len(self.messages)]
        for part, end in zip(self.parts, ends, strict=True):
            yield drafts.staged(part, self.messages[part.start : end])


class Publishing(Forwarding):
    """The verbs of whoever produces."""

    def publish(self, messages: Sequence[Message], group: Group | None = None) -> list[Receipt]:
        """Store messages, all or none, in order."""
        if group is None and len(messages) == 1 and not messages[0].chain:
            return [self._send(messages[0])]
        batch = Batch(messages, drafts.parts(messages))
        if group is None:
            return self._stored(messages, *self._offer(batch)[1:]) if messages else []
        check_group(group, messages)
        real = {message.id: message.id for message in messages}
        while True:
            members = tuple(real.get(member, member) for member in group.members)
            callback = replace(group.callback, gather=members)
            gathering = [drafts.gathering(group, messages, real), *drafts.draft(callback)]
            behind = replace(batch, group=gathering, callback=callback)
            answer, doubles, crowded = self._offer(behind)
            receipts = self._receipts(messages, doubles)
            if answer != b"again":
                return self._stored(messages, doubles, crowded)
            real = dict(reversed([(m.id, r.id) for m, r in zip(messages, receipts, strict=True)]))

    def _send(self, message: Message) -> Receipt:
        """One message that brings no others with it, as most are sent: by a script that has to do nothing else."""
        holder = self._produce("send", *drafts.single(message))
        if holder is None:
            return Receipt(message.id)
        return Receipt(holder.decode(), duplicate=True)

    def fire(self, schedule: str, slot: float, messages: Sequence[Message]) -> bool:
        """Publish for one slot of a schedule, once."""
        check_name("a schedule's name", schedule)
        head = (schedule, repr(float(slot)), new_call())
        answer = self._offer(Batch(messages, drafts.parts(messages), head))
        if answer:
            self._stored(messages, *answer[1:])
        return bool(answer)

    def schedules(self) -> Mapping[str, float]:
        """The last slot that each schedule fired."""
        flat = self.run("schedules")
        return {
            name.decode(): float(slot) for name, slot in zip(flat[::2], flat[1::2], strict=True)
        }

    def _offer(self, batch: Batch) -> Any:
        """What publish answers; nothing when the slot has fired."""
        behind = [batch.callback] if batch.callback is not None else []
        if not batch.large:
            return self._produce(
                "publish",
                *(*batch.schedule, *drafts.chained([*batch.messages, *behind]), *batch.group),
                *(value for part in batch.parts for value in part.runs),
            )
        answer = [b"stage"]
        while answer and answer[0] == b"stage":  # the policies changed, or what was staged is lost
            call = new_call()
            revision = min(self._stage(call, n, part) for n, part in enumerate(batch.staged(), 1))
            answer = self._produce(
                "begin",
                *(*batch.schedule, *drafts.chained(behind), *batch.group),
                *(call, len(batch.parts), revision, *drafts.wanted(batch.messages)),
            )
        if answer and answer[2]:
            self.carry_on(len(batch.parts) + 1)
            if self.target.replicas:
                self._produce("step")
        return answer

    def _stage(self, call: str, number: int, part: Sequence[Any]) -> int:
        return int(self.run("stage", call, number, *part))

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
