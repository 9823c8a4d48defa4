"""Working: the registry, claims, settlements, renewal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from millgate.brokers.base import MAX_BATCH, Ask, Claimed, Extended
from millgate.brokers.redis import rows
from millgate.brokers.redis.forwarding import Forwarding
from millgate.brokers.redis.session import new_call
from millgate.brokers.redis.settling import (
    parted,
    read_token,
    settling,
    sizes_of,
    token_of,
)
from millgate.brokers.redis.url import Target
from millgate.brokers.unanswered import Unanswered
from millgate.clock import Clock
from millgate.errors import BrokerUnavailable, InvalidInput
from millgate.fleet import Beat, WorkerInfo, WorkerRef, WorkerState
from millgate.message import Claim, ClaimRef
from millgate.queues import Subscription
from millgate.rules import check_name, check_texts
from millgate.settlement import Settlement

_STATES: Final = {
    b"U": WorkerState.UNKNOWN,
    b"A": WorkerState.ACTIVE,
    b"F": WorkerState.FENCED,
}
_BATCH: Final = 150
_MOST: Final = 300  # claims that one call to the server asks for, and settlements
_KEYED: Final = 200  # settlements of one call where the ends of runs let others of their key start
_TRIES: Final = 50  # while all that was found had expired
_ALL: Final = Subscription()
_SPAN: Final = 1 << 49


class Working(Forwarding):
    """The verbs of workers."""

    # Settlements that one call carries out; fewer while what was claimed last has keys.
    _enough = _MOST

    def __init__(self, target: Target, deadline: float, clock: Clock) -> None:
        super().__init__(target, deadline, clock)
        self._unanswered = Unanswered(new_call)

    def register(self, worker: WorkerRef, info: WorkerInfo) -> None:
        """Enter the registry, or renew."""
        check_name("a worker's name", worker.name)
        check_name("an incarnation", worker.incarnation)
        self.run("register", worker.name, worker.incarnation, json.dumps(asdict(info)))

    def unregister(self, worker: WorkerRef) -> None:
        """Leave the registry; claims go back uncharged, in batches."""
        while self.run("unregister", worker.name, worker.incarnation, _BATCH):
            pass

    def claim(self, worker: WorkerRef, ask: Ask, settlements: Sequence[Settlement] = ()) -> Claimed:
        """Carry out settlements, then hand over up to `ask.n` messages; what would hold the server for too long goes
        in several calls."""
        check_texts(worker.name, worker.incarnation)
        if not 0 <= ask.n <= MAX_BATCH:
            raise InvalidInput(f"n is {ask.n}; claim 0 to {MAX_BATCH} messages in one call")
        *earlier, last = self._calls(settlements)
        stale = [name for part in earlier for name in self._settle(part)]
        claimed = self._claim_some(worker, replace(ask, n=min(ask.n, _MOST)), last)
        stale += claimed.stale
        claims = list(claimed.claims)
        # the server ends a call early where it would take too long, and says that there may be more
        while claimed.claims and claimed.next_due == 0.0 and len(claims) < ask.n:
            part = replace(ask, n=min(ask.n - len(claims), _MOST))
            try:
                claimed = self._claim_some(worker, part, [])
            except BrokerUnavailable:
                break  # what was given before must not be lost with it
            claims += claimed.claims
        if claims:
            self._enough = _KEYED if any(claim.key for claim in claims) else _MOST
        return replace(claimed, claims=tuple(claims), stale=tuple(stale))

    def settle(self, settlements: Sequence[Settlement]) -> tuple[str, ...]:
        """Carry out settlements; the stale ones' ids."""
        if not settlements:
            return ()
        return tuple(name for part in self._calls(settlements) for name in self._settle(part))

    def extend(self, worker: WorkerRef, claims: Sequence[ClaimRef], beat: Beat) -> Extended:
        """Renew leases and the worker's row."""
        check_texts(worker.name, worker.incarnation)
        pairs = [part for claim in claims for part in (claim.id, read_token(claim) or b"")]
        lost, stop, state, revision = self.run(
            "extend", worker.name, worker.incarnation, json.dumps(asdict(beat)), *pairs
        )
        return Extended(
            tuple(name.decode() for name in lost),
            tuple(name.decode() for name in stop),
            _STATES[state],
            revision,
        )

    def progress(self, claim: ClaimRef, value: bytes) -> bool:
        """Store the progress of a run; False: the token is stale."""
        call = read_token(claim)
        return call is not None and bool(self.run("progress", claim.id, call, value))

    def _calls(self, settlements: Sequence[Settlement]) -> list[list[Any]]:
        """The arguments of the calls that carry out settlements. Where messages follow and one call is not enough, a
        first one has looked at their sizes: those refuse all. Raises InvalidInput, InvalidMessage."""
        if len(settlements) > MAX_BATCH:
            raise InvalidInput(
                f"{len(settlements)} settlements in one call; send at most {MAX_BATCH}"
            )
        parts = parted(settlements, self._enough)
        if len(parts) == 1:
            return [settling(settlements)]
        calls = [settling(part, looked_at=True) for part in parts]
        sizes = sizes_of(settlements)
        if sizes:
            self.run("sizes", *sizes)
        return calls

    def _settle(self, arguments: list[Any]) -> list[str]:
        stale, forward = self.run("settle", *arguments)
        if forward:
            self.forward()
        return [name.decode() for name in stale]

    def _claim_some(self, worker: WorkerRef, ask: Ask, settlements: list[Any]) -> Claimed:
        """One claim, tried again where the first was about topics that are not all, or found only what had expired."""
        claimed, asked, version = self._claim(worker, ask, settlements)
        stale = claimed.stale
        for _ in range(_TRIES):
            unnamed = ask.subscription != _ALL and version != asked
            if unnamed and version != self.topics.version:  # there are topics that we did not name
                self.refresh()
            if claimed.claims and unnamed:  # the settlements have brought them
                claimed = replace(claimed, next_due=0.0)
            if claimed.claims or not ask.n or not (unnamed or claimed.next_due == 0.0):
                break
            claimed, asked, version = self._claim(worker, ask, [])
        return replace(claimed, stale=stale)

    def _claim(
        self, worker: WorkerRef, ask: Ask, settlements: list[Any]
    ) -> tuple[Claimed, str, str]:
        """The answer, and the versions of the list of topics that was asked with and that is valid."""
        subscription = ask.subscription
        asked, chosen = self.selected(subscription)
        with self._unanswered.claim(worker) as (call, _):
            answer = self.run(
                "claim",
                *(worker.name, worker.incarnation, bytes.fromhex(call), ask.n),
                *("1" if subscription.ordered else "0", asked, *chosen),
                *settlements,
            )
        state, revision, version, stale, groups, due, forward, now = answer
        claims: list[Claim] = []
        for group in groups:
            _add_claims(claims, group, call, now)
        if forward:
            self.forward()
        claimed = Claimed(
            tuple(claims),
            tuple(name.decode() for name in stale),
            _STATES[state],
            revision,
            float(due) / 1000 if due else None,
        )
        return claimed, asked, version.decode()


def _add_claims(claims: list[Claim], group: list[Any], call: str, now: int) -> None:
    topic, millis, names, records, counted, ready = group
    topic, lease = topic.decode(), millis / 1000
    failed = lost = interrupted = 0
    for place, data in enumerate(records):
        name = names[place]
        rank, since, ttl, key, member_of, record = rows.parts(data)
        if counted:
            failed, lost, interrupted, _ = rows.counts(counted[place])
        if ready:
            since = float(ready[place] or since)
        claims.append(
            Claim(
                name.decode(),
                topic,
                token_of(call, name),
                record,
                failed + lost + interrupted + 1,
                failed,
                lost,
                interrupted,
                lease,
                (now - since) / 1000 if now > since else 0.0,
                9 - int(rank // _SPAN),
                key,
                ttl,
                member_of,
            )
        )
