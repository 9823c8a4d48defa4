"""Working: the registry, claims, settlements, renewal."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from millgate.brokers.base import MAX_BATCH, Ask, Claimed, Extended
from millgate.brokers.postgres.arrays import Bigints, Ints
from millgate.brokers.postgres.connection import Connection
from millgate.brokers.postgres.forwarding import Forwarding
from millgate.brokers.postgres.hints import Hints, Turns
from millgate.brokers.postgres.session import new_call
from millgate.brokers.postgres.settling import (
    NOTHING,
    Settling,
    read_token,
    settling,
    token_of,
)
from millgate.brokers.postgres.url import Target
from millgate.brokers.unanswered import Unanswered
from millgate.clock import Clock
from millgate.errors import BrokerUnavailable, InvalidInput
from millgate.fleet import Beat, WorkerInfo, WorkerRef, WorkerState
from millgate.message import Claim, ClaimRef
from millgate.queues import Subscription
from millgate.rules import check_name
from millgate.settlement import Settlement

_STATES: Final = (WorkerState.UNKNOWN, WorkerState.ACTIVE, WorkerState.FENCED)
#: Seconds between looks for what time has brought about, while there is more work than is asked for. A claim that is
#: given less is told whether there is something to bring about.
_UPKEEP: Final = 0.1
_TICK: Final = 1.0
_TRIES: Final = 4  # when somebody else had the counters


class Head(NamedTuple):
    """The last row of a claim."""

    state: int
    revision: int
    topics: int
    next_due: float | None
    done: Sequence[int] | None
    pass_topics: Sequence[int] | None
    passes: Sequence[float] | None
    busy: bool
    cost: float
    forward: bool
    missed: bool = False  # set here: what was asked for was chosen from an older list of topics


class Working(Forwarding):
    """The verbs of workers."""

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        super().__init__(target, deadline, clock)
        self._hints = Hints()
        self._turns = Turns()
        self._unanswered = Unanswered(new_call)
        self._kept_up = self._ticked = float("-inf")

    def register(self, worker: WorkerRef, info: WorkerInfo) -> None:
        """Enter the registry, or renew."""
        check_name("a worker's name", worker.name)
        check_name("an incarnation", worker.incarnation)
        self.rows("register", worker.name, worker.incarnation, json.dumps(asdict(info)))

    def unregister(self, worker: WorkerRef) -> None:
        """Leave the registry; claims go back uncharged."""
        self._hints.forget()
        self.rows("unregister", worker.name, worker.incarnation)

    def claim(self, worker: WorkerRef, ask: Ask, settlements: Sequence[Settlement] = ()) -> Claimed:
        """Carry out settlements, then hand over up to `ask.n` messages."""
        if not 0 <= ask.n <= MAX_BATCH:
            raise InvalidInput(f"n is {ask.n}; claim 0 to {MAX_BATCH} messages in one call")
        carried = settling(settlements) if settlements else None
        if carried is not None and carried.gave_back:
            self._hints.forget()
        self._keep_up()
        claims, head = self._claim(worker, ask.n, ask.subscription, carried)
        stale = carried.stale(head.done or ()) if carried is not None else ()
        for _ in range(_TRIES):
            try:
                if len(claims) >= ask.n or not self._worth_another(head, claims):
                    break
                more, head = self._claim(worker, ask.n - len(claims), ask.subscription, None)
            except BrokerUnavailable:
                break  # what was given before must not be lost with it
            claims += more
        return Claimed(tuple(claims), stale, _STATES[head.state], head.revision, head.next_due)

    def settle(self, settlements: Sequence[Settlement]) -> tuple[str, ...]:
        """Carry out settlements; the stale ones' ids."""
        if not settlements:
            return ()
        carried, call = settling(settlements), new_call()
        if carried.gave_back:
            self._hints.forget()
        [(done, forward)] = self.rows("settle", call, *carried.columns)
        if forward:
            self.forward()
        return carried.stale(done or ())

    def extend(self, worker: WorkerRef, claims: Sequence[ClaimRef], beat: Beat) -> Extended:
        """Renew leases and the worker's row."""
        named = [(claim.id, read_token(claim)) for claim in claims]
        pairs = [pair for _, pair in named if pair is not None]
        columns = (
            (Bigints([p[0] for p in pairs]), Bigints([p[1] for p in pairs]))
            if pairs
            else (None, None)
        )
        said = json.dumps(asdict(beat))
        [(held, tokens, cancelled, state, revision)] = self.rows(
            "extend", worker.name, worker.incarnation, said, *columns
        )
        kept, stop = set(zip(held or (), tokens or (), strict=True)), set(cancelled or ())
        return Extended(
            tuple(name for name, pair in named if pair not in kept),
            tuple(name for name, pair in named if pair in kept and pair[0] in stop),
            _STATES[state],
            revision,
        )

    def progress(self, claim: ClaimRef, value: bytes) -> bool:
        """Store the progress of a run; False: the token is stale."""
        pair = read_token(claim)
        return pair is not None and bool(self.value("progress", *pair, value))

    def tick(self) -> None:
        """What somebody has to do now and then: time's work, adding up counters, forgetting what is over."""
        self._ticked = self._kept_up = self.clock.monotonic()
        if self.value("tend"):
            self.catch_up()

    def asleep(self) -> int | None:
        """The number of the listener that has left word that it sleeps; None: nobody sleeps here."""
        return None

    def awake(self) -> None:
        """Work was found: that word is taken back."""

    def _worth_another(self, head: Head, claims: Sequence[Claim]) -> bool:
        """Whether a claim that was given too little may be given more at once, after doing what stood in its way."""
        if head.next_due is not None and head.next_due <= 0:
            if not self.upkeep():  # somebody else is about it
                self._breathe()
            return True
        if head.missed:
            if head.topics != self.topics.version:  # no other thread was quicker
                self.refresh()
            return True
        if claims:
            return False
        if head.busy:
            self._breathe()
        return head.busy

    def _breathe(self) -> None:
        self.clock.sleep(random.uniform(0.001, 0.004))  # noqa: S311 -- spreads repeats

    def upkeep(self) -> bool:
        """Bring about what time alone does; whether something moved."""
        self._kept_up = self.clock.monotonic()
        return bool(self.value("upkeep"))

    def _keep_up(self) -> None:
        now = self.clock.monotonic()
        if now - self._ticked >= _TICK:
            self.tick()
        elif now - self._kept_up >= _UPKEEP:
            self._kept_up = now
            self.rows("keep")

    def _claim(
        self, worker: WorkerRef, n: int, subscription: Subscription, carried: Settling | None
    ) -> tuple[list[Claim], Head]:
        known, numbers, levels = self.selected(subscription)
        now = self.clock.monotonic()
        tail = (
            *(worker.name, worker.incarnation, n),
            Ints(numbers) if numbers is not None else None,
            Ints(levels) if levels is not None else None,
            *self._hints.columns(now),
            *self._turns.columns(),
            self.asleep(),
            *(carried.columns if carried is not None else NOTHING),
        )

        with self._unanswered.claim(worker) as (call, open_):

            def claim(connection: Connection, repeated: bool) -> list[tuple[Any, ...]]:
                return self.run(connection, "claim", (call, repeated or open_, *tail))

            rows = self.pool.call(claim)
        last = rows.pop()
        head = Head(*last[13:])
        head = head._replace(missed=numbers is not None and head.topics != known)
        self._note(rows, head)
        if rows:
            self.awake()
        if head.forward:
            with suppress(BrokerUnavailable):  # the next tick does it
                self.forward()
        return self._claims(rows, call), head

    def _note(self, rows: Sequence[tuple[Any, ...]], head: Head) -> None:
        self._turns.note(head.pass_topics, head.passes)
        self._hints.looked(self.clock.monotonic(), head.cost)
        if rows:
            lanes = {(row[2] << 4) | (9 - row[3]): row[0] for row in rows}
            self._hints.claimed(list(lanes.items()))

    def _claims(self, rows: Sequence[tuple[Any, ...]], call: int) -> list[Claim]:
        names, claims = self.topics.names, []
        for row in rows:
            (
                seq,
                name,
                topic,
                priority,
                key,
                ttl,
                group,
                record,
                failed,
                lost,
                interrupted,
                age,
                lease,
            ) = row[:13]
            claims.append(
                Claim(
                    name,
                    names[topic] if topic in names else self.name_of(topic),
                    token_of(seq, call, name),
                    record,
                    failed + lost + interrupted + 1,
                    failed,
                    lost,
                    interrupted,
                    lease,
                    age,
                    priority,
                    key,
                    ttl,
                    group,
                )
            )
        return claims
