"""Every queue of a broker and what its callers were answered: a deterministic function of the records put in.

The journal's records go through `apply` when they are made and, in the same order, when they are read back; both
times they do the same. Looking, and time that passes, leave no record: what time brings about happens as of its own
time, whoever comes by.
"""

from __future__ import annotations

from dataclasses import dataclass
from logging import getLogger
from typing import Any, Final

from millgate.brokers.core import Core
from millgate.brokers.served import frames, state, verbs
from millgate.brokers.served.answers import failure, success
from millgate.brokers.served.caller import Caller
from millgate.errors import BrokerError, BrokerUnavailable, MillgateError, NotDecodable

#: Seconds for which a silent caller's last answers are kept: far more than the deadline of any call.
MEMORY: Final = 300.0
_CALLERS: Final = 20_000  # remembered at most
_ANSWERS: Final = 256  # of one caller; one thread has one call

log = getLogger("millgate.brokers")


@dataclass(slots=True)
class Call:
    """One call as it came in. Answers to calls before number `settled` have arrived at the caller."""

    number: int
    settled: int
    verb: str
    args: list[Any]

    @classmethod
    def read(cls, payload: bytes) -> Call:
        """Raises NotDecodable."""
        parts = frames.unpack(payload)
        if not isinstance(parts, list) or len(parts) != 4:
            raise NotDecodable
        call = cls(*parts)
        if not (
            isinstance(call.number, int)
            and isinstance(call.settled, int)
            and isinstance(call.verb, str)
            and isinstance(call.args, list)
        ):
            raise NotDecodable
        return call


class Remembered:
    """The answers that one caller may not have got."""

    __slots__ = ("answers", "seen", "settled")

    def __init__(
        self, seen: float, answers: dict[int, bytes] | None = None, settled: int = 0
    ) -> None:
        self.seen = seen
        self.answers = answers or {}
        #: The caller waits for no answer to a call before this number: such a call comes late, and is not carried out.
        self.settled = settled

    def keep(self, call: Call, answer: bytes, now: float) -> None:
        """Add one, and forget those that have arrived."""
        self.seen = now
        answers = self.answers
        self.settled = max(self.settled, call.settled)
        for number in [number for number in answers if number < self.settled]:
            del answers[number]
        answers[call.number] = answer
        if len(answers) > _ANSWERS:
            del answers[min(answers)]


class Engine:
    """All state of a broker."""

    def __init__(self) -> None:
        self.now = 0.0  # of the last record
        self.queues: dict[str, Core] = {}
        self._callers: dict[str, Remembered] = {}  # longest silent first

    def remembered(self, caller: Caller, number: int) -> bytes | None:
        """The answer to a call that was carried out before."""
        known = self._callers.get(caller.client)
        return known.answers.get(number) if known is not None else None

    def record(self, now: float, caller: Caller, payload: bytes) -> bytes:
        """What the journal keeps of a call."""
        return frames.pack([now, caller.client, caller.queue, payload])

    def replay(self, record: bytes) -> None:
        """Do again what a record says; nobody waits here for what comes of it. Raises NotDecodable."""
        now, client, queue, payload = frames.unpack(record)
        if client:
            self.apply(now, Caller(client, queue), Call.read(payload))
            self.core(queue).take_news()  # or it would grow for as long as somebody reads along
        else:
            self._spare(now, *frames.unpack(payload))

    @property
    def held(self) -> bool:
        """Whether somebody has what ends unless it is renewed."""
        return any(core.held for core in self.queues.values())

    def resumption(self, now: float) -> bytes:
        """A record for `replay`, here as well: nobody could be heard since the last record, and that time counts
        against no lease, fence, lock or worker. Comes before anything else of that moment.

        It says how far time had passed here, for what time brought about leaves no record: a lease that has ended
        is not to come back to life where this is read.
        """
        by = max(0.0, now - self.now)
        return frames.pack([now, "", "", frames.pack([self._passed(0.0), by])])

    def lapse(self, now: float) -> bytes | None:
        """A record that leases end by `now`, when one does and nothing else of that moment says so: who takes over next
        spares those that have not ended. It changes nothing here."""
        if not any(core.lapses(now) for core in self.queues.values()):
            return None
        return frames.pack([now, "", "", frames.pack([now, 0.0])])

    def correction(self, passed: float, now: float) -> bytes:
        """A record for `replay`, here as well: the clock by which all up to `passed` had come to pass was set to `now`.
        What lasts a while goes on lasting as long as it would have."""
        passed = self._passed(passed)
        return frames.pack([now, "", "", frames.pack([passed, 0.0, now - passed])])

    def _passed(self, least: float) -> float:
        return max(least, *(core.now for core in self.queues.values())) if self.queues else self.now

    def apply(self, now: float, caller: Caller, call: Call) -> bytes:
        """Carry a call out, unless it was, or its caller has given it up; the answer's frame."""
        self.now = now
        known = self._callers.pop(caller.client, None) or Remembered(now)
        self._callers[caller.client] = known
        answer = known.answers.get(call.number)
        if answer is None and call.number < known.settled:
            return failure(call.number, BrokerUnavailable("its caller had given this call up"))
        if answer is None:
            if caller.queue not in self.queues:
                # Nobody's tokens of an earlier life of this queue may be valid in this one.
                self.queues[caller.queue] = Core(f"{caller.client[:8]}{int(now * 1000):x}.")
            answer = self._answer(now, self.queues[caller.queue], call, verbs.WRITES)
            known.keep(call, answer, now)
            self._forget(now)
        return answer

    def look(self, now: float, caller: Caller, call: Call) -> bytes:
        """Answer a call that changes nothing."""
        return self._answer(now, self.core(caller.queue), call, verbs.READS)

    def core(self, queue: str) -> Core:
        """The queue of that name; one that nobody has written to is empty, and is not kept."""
        return self.queues.get(queue) or Core()

    def dump(self) -> bytes:
        """The whole state, for a snapshot."""
        queues = {name: core.parts() for name, core in self.queues.items()}
        callers = [
            [client, one.seen, one.answers, one.settled] for client, one in self._callers.items()
        ]
        return state.pack(self.now, queues, callers)

    def load(self, data: bytes) -> None:
        """Take over what `dump` gave. Raises NotDecodable."""
        reader = state.Reader(data)
        self.now = reader.now()
        self.queues = {name: Core.load(parts) for name, parts in reader.queues()}
        self._callers = {client: Remembered(*known) for client, *known in reader.callers()}

    def _spare(self, now: float, passed: float, by: float, moved: float = 0.0) -> None:
        for core in self.queues.values():
            core.tick(passed)
            core.spare(by)
            if moved:
                core.stepped(moved)
        for known in self._callers.values():
            known.seen += moved
        self.now = now

    def _answer(self, now: float, core: Core, call: Call, table: verbs.Table) -> bytes:
        try:
            value = table[call.verb](core, now, *call.args)
            return success(call.number, value)
        except MillgateError as error:
            return failure(call.number, error)
        except Exception as error:
            log.exception("%s failed", call.verb)
            return failure(
                call.number, BrokerError(f"{call.verb}: {type(error).__name__}: {error}")
            )

    def _forget(self, now: float) -> None:
        for client in self._outdated(now):
            del self._callers[client]

    def _outdated(self, now: float) -> list[str]:
        found: list[str] = []
        for client, known in self._callers.items():
            if known.seen > now - MEMORY and len(self._callers) - len(found) <= _CALLERS:
                break
            found.append(client)
        return found
