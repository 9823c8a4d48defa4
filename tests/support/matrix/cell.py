"""One cell of the fault matrix: a verb, a fault, a road; each request of the verb is hit, on a bench of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from support.faults import Fault
from support.matrix import looking, producing, steering, working
from support.matrix.bench import LOST, Bench, Case
from support.matrix.road import Ground
from support.wait import eventually

#: The verbs of the protocol, by name; what is in parentheses tells variants apart.
VERBS: Final[Mapping[str, Callable[[Bench], Case]]] = {
    "setup": steering.setup,
    "server": steering.server,
    "configure": steering.configure,
    "configuration": steering.configuration,
    "publish": producing.publish,
    "publish (group)": producing.publish_group,
    "register": working.register,
    "unregister": working.unregister,
    "claim": working.claim,
    "claim (more)": working.claim_more,
    "settle": working.settle,
    "extend": working.extend,
    "progress": working.progress,
    "wait_for_work": working.wait_for_work,
    "interrupt": working.interrupt,
    "fence": steering.fence,
    "unfence": steering.unfence,
    "stats": looking.stats,
    "pause": steering.pause,
    "states": looking.states,
    "wait": looking.wait,
    "peek": looking.peek,
    "cancel": steering.cancel,
    "requeue": working.requeue,
    "purge": steering.purge,
    "dead": looking.dead,
    "dead_letter": looking.dead_letter,
    "replay": steering.replay,
    "purge_dead": steering.purge_dead,
    "acquire": producing.acquire,
    "renew": producing.renew,
    "release": producing.release,
    "locks": producing.locks,
    "fire": producing.fire,
    "schedules": producing.schedules,
    "close": working.close,
}
#: Requests of one call that are hit: the first, the last, and some between.
MOST: Final = 4
_LATE: Final = 0.05  # seconds for the server to carry out what reached it late


@contextmanager
def _bench(ground: Ground, verb: str) -> Iterator[tuple[Bench, Case]]:
    bench = Bench(ground)
    try:
        yield bench, VERBS[verb](bench)
    finally:
        bench.proxy.heal()
        bench.close()


def undisturbed(ground: Ground, verb: str) -> Sequence[int]:
    """Which requests of one call are to be hit. What the verb must do when nothing happens to it is checked as well."""
    seen = 0

    def count(_: bytes) -> bool:
        nonlocal seen
        seen += 1
        return False

    with _bench(ground, verb) as (bench, case):
        bench.proxy.arm(Fault.CUT_BEFORE, match=count)
        answers = [bench.timed(case)]
        requests = seen
        assert answers[0] is not LOST
        case.check(answers)
        answers.append(bench.timed(case))
        assert answers[1] is not LOST
        case.check(answers)
        bench.conserved()
    assert requests, "the call asks nothing of the server"
    return sorted({round(at * (requests - 1) / (MOST - 1)) for at in range(MOST)})


def disturbed(ground: Ground, verb: str, fault: Fault, requests: Sequence[int]) -> None:
    """Let the fault hit each request of the verb; everything that the contract promises must hold."""
    hits = sum(_hit(ground, verb, fault, at) for at in requests)
    assert hits, "the fault met no request"


def _hit(ground: Ground, verb: str, fault: Fault, at: int) -> int:
    with _bench(ground, verb) as (bench, case):
        bench.fault = fault
        bench.proxy.arm(fault, match=partial(_fits, bench, [at]))
        answers = [bench.timed(case)]
        hits = bench.proxy.sprung
        bench.proxy.heal()
        eventually(lambda: not bench.proxy.abandoned)
        time.sleep(_LATE if answers[0] is LOST else 0)
        assert answers[0] is not LOST or not bench.gentle, (
            "the server was there, and no answer came"
        )
        case.check(answers)
        answers.append(bench.timed(case))
        assert answers[1] is not LOST, "the same client works no more after the fault"
        case.check(answers)
        bench.conserved()
        return hits


def _fits(bench: Bench, left: list[int], _: bytes) -> bool:
    """Whether this is the request to hit; a stall holds up all other connections as well, until the call is over."""
    left[0] -= 1
    if left[0] == -1 and bench.fault is Fault.STALL:
        bench.proxy.stall()
    return left[0] == -1
