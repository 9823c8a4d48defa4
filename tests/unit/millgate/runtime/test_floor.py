"""What the io thread makes of runs that others bring, ask for and give up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from millgate.message import Claim
from millgate.outcome import Cancelled, Outcome
from millgate.retry import RetryPolicy
from millgate.runtime.dispatch import Dispatcher
from millgate.runtime.estimate import Runtimes
from millgate.runtime.floor import Floor
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.terms import Terms
from millgate.settlement import Ack
from support.clock import FakeClock


class Scene:
    """A floor without children."""

    def __init__(self) -> None:
        self.clock, self.ledger = FakeClock(), Ledger()
        self.dispatcher = Dispatcher(1, Runtimes(), self.clock)
        self.pool: Any = SimpleNamespace(children={}, retire_all=lambda: None)
        verdict: Any = SimpleNamespace(finish=self.finish, lost=lambda _run: None)
        others: dict[str, Any] = dict.fromkeys(("runtimes", "desk", "pulse", "deadlines"))
        overtime: Any = SimpleNamespace(cancel=None, lost=None)
        reactor: Any = SimpleNamespace(post=lambda call, *arguments: call(*arguments))
        self.floor = Floor(
            reactor,
            self.pool,
            self.dispatcher,
            ledger=self.ledger,
            verdict=verdict,
            overtime=overtime,
            clock=self.clock,
            **others,
        )

    def finish(self, run: Run, _outcome: Outcome) -> None:
        self.ledger.settle(run, Ack(run.claim.ref))

    def claim(self) -> Run:
        run = Run(Claim("a", "default", "1", b""), "task", Terms(None, 10.0, RetryPolicy(), None))
        self.ledger.add([run])
        return run


@pytest.mark.parametrize("how", ["cancelled", "lost"])
def test_a_run_that_has_its_end_before_it_is_brought_does_not_begin(how: str) -> None:
    scene = Scene()
    run = scene.claim()
    if how == "cancelled":
        scene.floor.cancelled([run])
    else:
        scene.ledger.forget(run)
        scene.floor.lost([run])
    scene.floor.start([run])
    assert len(scene.dispatcher) == 0
    scene.floor.start([other := scene.claim()])
    assert scene.dispatcher.waiting() == [other]


def test_a_drain_is_not_over_before_the_broker_has_taken_what_ended() -> None:
    scene = Scene()
    run = scene.claim()
    scene.floor.begin_drain(60.0)
    assert not scene.floor.finished
    scene.finish(run, Cancelled())
    assert not scene.floor.finished
    taken = scene.ledger.take()
    assert not scene.floor.finished
    scene.ledger.done(taken)
    assert scene.floor.finished


def test_a_drain_is_over_when_its_time_is() -> None:
    scene = Scene()
    scene.finish(scene.claim(), Cancelled())
    scene.floor.begin_drain(60.0)
    scene.clock.advance(59.0)
    assert not scene.floor.finished
    scene.clock.advance(2.0)
    assert scene.floor.finished
