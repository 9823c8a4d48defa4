"""The claim loop on a memory broker whose clock is turned by hand: one turn at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from millgate.brokers.base import Claimed
from millgate.brokers.memory import MemoryBroker
from millgate.errors import BrokerUnavailable, PayloadTooLarge, QueueFull
from millgate.fleet import WorkerInfo, WorkerState
from millgate.outcome import Interrupted, Reason, Returned
from millgate.queues import Subscription
from millgate.runtime.connection import Connection
from millgate.runtime.intake import UNKNOWN_LIMIT, Intake, unknown_task
from millgate.runtime.lease import Leases
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.logs import Journal
from millgate.runtime.loop import Loop
from millgate.runtime.metrics import Metrics
from millgate.runtime.policies import Policies
from millgate.runtime.pulse import Pulse
from millgate.runtime.verdict import Verdict
from millgate.settlement import Ack, Settlement
from millgate.spec import TaskWire
from support.builders import a_message, a_topic, a_worker, some_messages
from support.clock import FakeClock


class Faulty:
    """A broker that fails when it is told to, and never waits."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self.fail_next: Exception | None = None
        self.refuse: type[Exception] | None = None  # settlements that publish are refused so
        self.waits: list[float] = []
        self.settled: list[Settlement] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def _check(self, settlements: Sequence[Settlement]) -> None:
        self.settled += settlements
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error
        if self.refuse is not None and any(isinstance(s, Ack) and s.publish for s in settlements):
            raise self.refuse

    def claim(self, worker: Any, ask: Any, settlements: Sequence[Settlement] = ()) -> Claimed:
        self._check(settlements)
        return self._broker.claim(worker, ask, settlements)

    def settle(self, settlements: Sequence[Settlement]) -> tuple[str, ...]:
        self._check(settlements)
        return self._broker.settle(settlements)

    def wait_for_work(self, subscription: Subscription, timeout: float) -> bool:
        self.waits.append(timeout)
        return False


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.broker = MemoryBroker(clock=self.clock)
        self.faulty = Faulty(self.broker)
        self.worker = a_worker("w")
        self.metrics, self.ledger, self.policies = Metrics(), Ledger(), Policies()
        self.pulse = Pulse(self.clock)
        journal = Journal(
            self.clock, json_lines=True, level="error", descriptor=os.open("/dev/null", os.O_WRONLY)
        )
        self.connection = Connection(
            lambda: "",
            "q",
            journal=journal,
            metrics=self.metrics,
            clock=self.clock,
            broker=self.faulty,
        )
        self.verdict = Verdict(self.ledger, journal, self.metrics)
        self.leases = Leases(
            self.worker,
            self.connection,
            self.ledger,
            policies=self.policies,
            pulse=self.pulse,
            clock=self.clock,
        )
        self.intake = Intake(
            self.connection,
            self.ledger,
            self.policies,
            verdict=self.verdict,
            metrics=self.metrics,
            clock=self.clock,
        )
        self.intake.tasks = {"work": TaskWire("work")}
        self.started: list[Run] = []
        self.events: list[str] = []
        self.loop = Loop(
            self.worker,
            WorkerInfo(slots=4),
            Subscription(),
            connection=self.connection,
            ledger=self.ledger,
            leases=self.leases,
            intake=self.intake,
            pulse=self.pulse,
            journal=journal,
            metrics=self.metrics,
            clock=self.clock,
            burst=True,
        )
        self.loop.start = self.started.extend
        self.loop.on_nothing_left = lambda: self.events.append("nothing left")
        self.loop.on_superseded = lambda: self.events.append("superseded")
        self.loop.introduce()

    def turn(self, target: int | None = None) -> list[Run]:
        """One turn; answers what was started in it."""
        if target is not None:
            self.loop.target = target
        self.started.clear()
        self.pulse.beat(self.ledger.shortest_lease())
        self.loop._turn()
        return list(self.started)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_claims_what_there_is_room_for_and_no_more(scene: Scene) -> None:
    scene.broker.publish(some_messages(5))
    assert len(scene.turn(target=2)) == 2
    assert scene.ledger.active == 2
    assert scene.broker.stats().topics["default"].waiting == 3


def test_a_buffer_is_earned_by_runs_that_ended_and_lost_when_there_was_nothing_to_do(
    scene: Scene,
) -> None:
    scene.broker.publish(some_messages(9))
    first = scene.turn(target=100)  # short tasks were learned, but these may be of another kind
    assert len(first) == 4
    for run in first[:2]:
        scene.verdict.finish(run, Returned(b"1"))
    second = scene.turn(target=100)
    assert len(second) == 2
    # Two runs have ended; four are held, as many as there are slots.
    assert scene.loop._room() == 2 * 2
    for run in (*first[2:], *second):
        scene.verdict.finish(run, Returned(b"1"))
    third = scene.turn(target=100)
    assert len(third) == 3
    for run in third:
        scene.verdict.finish(run, Returned(b"1"))
    assert scene.turn(target=100) == []
    assert scene.loop._room() == 4


def test_long_records_are_claimed_in_calls_of_a_bounded_size(scene: Scene) -> None:
    scene.broker.configure([a_topic(payload_max=2**21)])
    bodies = [b"x" * 2**20] * 60 + [b"x"] * 400
    scene.broker.publish([a_message(body=body) for body in bodies])
    scene.loop.target = scene.loop._window = 1000
    counts = []
    while len(scene.started) < len(bodies):
        before = len(scene.started)
        scene.loop._turn()
        counts.append(len(scene.started) - before)
    assert counts == [32, 7, 7, 7, 7, 7, 300, 93], "of unknown length, long, short"


def test_settlements_and_the_next_claim_are_one_call(scene: Scene) -> None:
    scene.broker.publish(some_messages(2))
    [first] = scene.turn(target=1)
    scene.verdict.finish(first, Returned(b"1"))
    [second] = scene.turn()
    assert second is not first
    assert scene.metrics.value("millgate_claim_calls_total") == 2
    assert scene.broker.states([first.claim.id])[0].state == "succeeded"


def test_a_call_that_may_have_been_lost_is_repeated_with_its_settlements(scene: Scene) -> None:
    scene.broker.publish(some_messages(1))
    [run] = scene.turn(target=1)
    scene.verdict.finish(run, Returned(b"1"))
    scene.faulty.fail_next = BrokerUnavailable()
    with pytest.raises(BrokerUnavailable):
        scene.turn()
    assert not scene.ledger.empty
    scene.turn()
    assert scene.ledger.empty
    assert scene.broker.states([run.claim.id])[0].state == "succeeded"


def test_one_refused_settlement_does_not_hold_the_others(scene: Scene) -> None:
    scene.broker.publish(some_messages(2))
    bad, good = scene.turn(target=2)
    scene.verdict.finish(bad, Returned(b"1", (a_message(id="next"),)))
    scene.verdict.finish(good, Returned(b"2"))
    scene.faulty.refuse = PayloadTooLarge
    scene.turn(target=0)
    assert scene.broker.states([good.claim.id])[0].state == "succeeded"
    scene.turn()
    state = scene.broker.states([bad.claim.id])[0]
    assert (state.state, state.reason) == ("failed", Reason.RESULT_REFUSED)


def test_a_next_step_waits_for_room_in_a_full_queue_and_its_result_is_not_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.broker.publish(some_messages(1))
    [run] = scene.turn(target=1)
    scene.verdict.finish(run, Returned(b"1", (a_message(id="next"),)))
    scene.faulty.refuse = QueueFull
    waits: list[float] = []
    with monkeypatch.context() as patched:
        patched.setattr(scene.loop._bell, "wait", waits.append)
        scene.turn(target=0)
    assert waits == [1.0]  # else it would ask again and again as fast as it can
    assert scene.broker.states([run.claim.id])[0].state == "running"
    scene.faulty.refuse = None
    scene.turn()
    states = scene.broker.states([run.claim.id, "next"])
    assert [state.state for state in states] == ["succeeded", "waiting"]


def test_a_claim_that_got_all_there_is_is_followed_by_a_wait_and_not_by_another(
    scene: Scene,
) -> None:
    scene.broker.publish(some_messages(3))
    assert len(scene.turn(target=2)) == 2
    assert scene.faulty.waits == []  # it got what it asked for: there may be more
    assert len(scene.turn(target=4)) == 1
    assert len(scene.faulty.waits) == 1
    assert scene.metrics.value("millgate_claim_calls_total") == 2
    assert scene.metrics.value("millgate_empty_claims_total") == 0
    scene.broker.publish(some_messages(1))
    assert len(scene.turn(target=4)) == 1


def test_what_it_did_not_get_it_waits_for_as_long_as_nothing_is_due(scene: Scene) -> None:
    scene.broker.publish([a_message(delay=5.0)])
    scene.turn(target=1)
    assert 0 < scene.faulty.waits[-1] <= 5.0


def test_after_stop_claiming_it_only_settles(scene: Scene) -> None:
    scene.broker.publish(some_messages(3))
    [run] = scene.turn(target=1)
    scene.loop.stop_claiming()
    scene.verdict.finish(run, Returned(b"1"))
    assert scene.turn(target=5) == []
    assert scene.broker.states([run.claim.id])[0].state == "succeeded"
    assert scene.broker.stats().topics["default"].waiting == 2


def test_a_forgotten_worker_registers_again(scene: Scene) -> None:
    scene.broker.unregister(scene.worker)
    scene.broker.publish(some_messages(1))
    assert scene.turn(target=1) == []
    assert len(scene.turn()) == 1
    assert scene.events == []


def test_a_worker_whose_name_was_taken_gives_way(scene: Scene) -> None:
    scene.broker.register(a_worker("w"), WorkerInfo())
    scene.broker.publish(some_messages(1))
    scene.turn(target=1)
    assert scene.events == ["superseded"]
    assert scene.loop._room() == 0


def test_a_fenced_worker_claims_nothing_and_still_settles(scene: Scene) -> None:
    scene.broker.publish(some_messages(2))
    [run] = scene.turn(target=1)
    scene.broker.fence("w", 60.0)
    scene.leases.renew()
    assert scene.leases.state is WorkerState.FENCED
    scene.verdict.finish(run, Returned(b"1"))
    assert scene.turn(target=5) == []
    assert scene.broker.states([run.claim.id])[0].state == "succeeded"


def test_after_a_freeze_nothing_is_settled_before_the_leases_were_asked_about(scene: Scene) -> None:
    scene.broker.configure([a_topic(lease=10.0)])
    scene.broker.publish(some_messages(1))
    [run] = scene.turn(target=1)
    scene.verdict.finish(run, Returned(b"late"))
    scene.clock.advance(30.0)  # frozen: the lease is over, and nobody has beaten since
    scene.loop.target = 1
    scene.started.clear()
    scene.loop._turn()
    assert scene.faulty.settled == []
    assert scene.broker.states([run.claim.id])[0].state != "succeeded"


def test_of_two_runs_of_one_message_only_the_earlier_one_is_lost(scene: Scene) -> None:
    lost: list[Run] = []
    scene.leases.on_lost = lost.extend
    scene.broker.publish(some_messages(1))
    [first] = scene.turn(target=2)
    scene.broker.requeue([first.claim.id])
    [second] = scene.turn()
    scene.leases.renew()
    assert lost == [first]
    assert second.claim.id == first.claim.id


def test_burst_is_over_when_nothing_is_left_or_due_soon(scene: Scene) -> None:
    scene.broker.publish([a_message(delay=20.0)])
    scene.turn(target=1)
    assert scene.events == []
    scene.clock.advance(21.0)
    [run] = scene.turn()
    scene.verdict.finish(run, Returned(b"1"))
    scene.turn()
    scene.turn()
    assert set(scene.events) == {"nothing left"}


def test_an_unknown_task_goes_back_with_growing_waits_and_is_buried_in_the_end() -> None:
    waits = [unknown_task("t", times) for times in range(10)]
    assert waits[0] == Interrupted(1.0)
    assert waits[3] == Interrupted(8.0)
    assert waits[9] == Interrupted(60.0)
    last: Any = unknown_task("t", UNKNOWN_LIMIT)
    assert last.reason is Reason.UNKNOWN_TASK


def test_policies_are_read_again_when_the_revision_changes(scene: Scene) -> None:
    scene.broker.configure([a_topic(hard_timeout=5.0)])
    scene.broker.publish(some_messages(2))
    [run] = scene.turn(target=1)
    assert run.terms.hard == 5.0
    scene.broker.configure([a_topic(hard_timeout=7.0)])
    scene.verdict.finish(run, Returned(b"1"))
    [run] = scene.turn()
    assert run.terms.hard == 7.0


def test_what_needs_no_look_starts_before_the_members_of_others_are_looked_up(scene: Scene) -> None:
    scene.broker.publish([a_message(id="callback", gather=("m",)), a_message(id="plain")])
    seen: list[list[str]] = []

    def states(_ids: Any) -> Any:
        seen.append([run.claim.id for run in scene.started])
        raise BrokerUnavailable

    scene.faulty.states = states  # type: ignore[attr-defined]
    scene.turn(target=2)
    assert seen == [["plain"]]


def test_a_renewal_reads_no_policies_and_the_loop_does(scene: Scene) -> None:
    scene.leases.on_revision = scene.loop.follow
    scene.broker.configure([a_topic(hard_timeout=7.0)])
    scene.faulty.configuration = lambda: pytest.fail("a renewal waits for this")  # type: ignore[attr-defined]
    scene.leases.renew()
    del scene.faulty.configuration  # type: ignore[attr-defined]
    scene.turn(target=0)
    assert scene.policies.revision == scene.broker.configuration().revision


def test_a_short_lease_that_comes_in_during_a_renewal_is_renewed_in_its_time(scene: Scene) -> None:
    extend = scene.broker.extend

    def meanwhile(*arguments: Any) -> Any:
        scene.leases.expect(1.5)  # the broker thread has claimed, and not entered it yet
        scene.leases.stop()
        return extend(*arguments)

    scene.faulty.extend = meanwhile  # type: ignore[attr-defined]
    scene.leases.nudge()
    scene.leases.run()
    assert scene.leases._due <= scene.clock.monotonic() + 0.5
