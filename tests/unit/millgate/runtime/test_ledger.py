"""What a worker holds: counted once, settled once, kept until the broker has answered."""

from __future__ import annotations

from millgate.message import Claim
from millgate.retry import RetryPolicy
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.terms import Terms
from millgate.settlement import Ack, Drop

TERMS = Terms(None, 60.0, RetryPolicy(), None)


def a_run(name: str, lease: float = 60.0) -> Run:
    return Run(Claim(name, "default", f"token-{name}", b"", lease=lease), "task", TERMS)


def test_a_run_is_active_until_it_is_settled_and_held_until_the_broker_has_answered() -> None:
    ledger = Ledger()
    run = a_run("a")
    ledger.add([run])
    assert (ledger.active, ledger.waiting, ledger.empty) == (1, 0, False)
    ledger.settle(run, Ack(run.claim.ref))
    assert (ledger.active, ledger.waiting, ledger.empty) == (0, 1, False)
    taken = ledger.take()
    assert (ledger.waiting, [ref.id for ref in ledger.refs()]) == (0, ["a"])
    assert ledger.unsettled == 1
    ledger.done(taken)
    assert ledger.empty
    assert ledger.unsettled == 0


def test_only_the_first_end_of_a_run_counts() -> None:
    woken: list[int] = []
    ledger = Ledger(woken=lambda: woken.append(1))
    run = a_run("a")
    ledger.add([run])
    ledger.settle(run, Ack(run.claim.ref))
    ledger.settle(run, Drop(run.claim.ref))
    assert [entry.settlement for entry in ledger.take()] == [Ack(run.claim.ref)]
    assert woken == [1]


def test_what_the_broker_may_not_have_taken_comes_again_first() -> None:
    ledger = Ledger()
    first, second = a_run("a"), a_run("b")
    ledger.add([first, second])
    ledger.settle(first, Ack(first.claim.ref))
    taken = ledger.take()
    ledger.settle(second, Ack(second.claim.ref))
    ledger.back(taken)
    assert [entry.run for entry in ledger.take()] == [first, second]


def test_a_lost_claim_reports_nothing_whether_it_has_ended_or_not() -> None:
    ledger = Ledger()
    active, settled = a_run("a"), a_run("b")
    ledger.add([active, settled])
    ledger.settle(settled, Ack(settled.claim.ref))
    assert ledger.forget(active)
    assert ledger.forget(settled)
    assert (ledger.active, ledger.waiting, ledger.empty) == (0, 0, True)
    ledger.settle(active, Ack(active.claim.ref))
    assert ledger.take() == []


def test_the_shortest_lease_is_known_at_once_and_forgotten_with_the_next_renewal() -> None:
    ledger = Ledger()
    assert ledger.shortest_lease() is None
    long, short = a_run("a", 60.0), a_run("b", 2.0)
    ledger.add([long])
    ledger.add([short])
    assert ledger.shortest_lease() == 2.0
    ledger.settle(short, Ack(short.claim.ref))
    ledger.done(ledger.take())
    ledger.runs()
    assert ledger.shortest_lease() == 60.0


def test_a_claim_that_the_broker_has_just_settled_for_us_is_not_lost() -> None:
    ledger = Ledger()
    settled, under_way, taken_away = a_run("a"), a_run("b"), a_run("c")
    ledger.add([settled, under_way, taken_away])
    ledger.settle(settled, Ack(settled.claim.ref))
    ledger.done(ledger.take())
    ledger.settle(under_way, Ack(under_way.claim.ref))
    entries = ledger.take()
    # a renewal that was under way meanwhile says that the broker knows none of the three claims
    assert [ledger.forget(run) for run in (settled, under_way, taken_away)] == [False, False, True]
    ledger.back(entries)  # no answer to the settlement: the next renewal tells
    assert ledger.waiting == 1
    assert ledger.forget(under_way)
    assert ledger.empty
