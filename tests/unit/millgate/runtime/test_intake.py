"""Runs made of claims, and what a broker that fails meanwhile may cost: nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from millgate.brokers.base import State, TaskState
from millgate.clock import SystemClock
from millgate.errors import BrokerUnavailable
from millgate.message import Claim, Message, Options
from millgate.outcome import Reason
from millgate.runtime.intake import Intake
from millgate.runtime.ledger import Ledger, Run
from millgate.runtime.logs import Journal
from millgate.runtime.metrics import Metrics
from millgate.runtime.policies import Policies
from millgate.runtime.verdict import Verdict
from millgate.settlement import Bury, Charge, Later
from millgate.spec import TaskWire


class Away:
    """A broker that has handed over claims and answers nothing any more."""

    def states(self, _ids: Any) -> Any:
        raise BrokerUnavailable("away")

    def configuration(self) -> Any:
        raise BrokerUnavailable("away")


class Generous(Away):
    """A broker that keeps large results."""

    def states(self, ids: Any) -> Any:
        return [TaskState(id, State.SUCCEEDED, "maths", b"r" * 16 * 2**20) for id in ids]  # noqa: A001


def made(broker: Any = None) -> tuple[Intake, Ledger, int]:
    clock, metrics, ledger, policies = SystemClock(), Metrics(), Ledger(), Policies()
    journal = Journal(clock, json_lines=True, level="error")
    intake = Intake(
        SimpleNamespace(broker=broker or Away()),  # type: ignore[arg-type]
        ledger,
        policies,
        verdict=Verdict(ledger, journal, metrics),
        metrics=metrics,
        clock=clock,
    )
    intake.tasks = {"add": TaskWire("add")}
    return intake, ledger, policies.revision


def claim(name: str, **fields: Any) -> Claim:
    message = Message(name, "maths", "add", b"[[],{}]", **fields)
    return Claim(name, "maths", f"token-{name}", message.record())


def received(intake: Intake, claims: list[Claim], revision: int) -> list[Run]:
    """The runs that a worker would start, in order."""
    ready, callbacks = intake.receive(claims, revision)
    return ready + intake.gather(callbacks)


def test_a_callback_whose_members_cannot_be_read_goes_back_uncharged_and_the_others_start() -> None:
    intake, ledger, revision = made()
    runs = received(intake, [claim("a"), claim("b", gather=("m",)), claim("c")], revision)
    assert [run.claim.id for run in runs] == ["a", "c"]
    [entry] = ledger.take()
    assert entry.run.claim.id == "b"
    assert isinstance(entry.settlement, Later)
    assert (entry.settlement.charge, entry.settlement.delay) == (Charge.NOTHING, 1.0)
    assert {run.claim.id for run in ledger.runs()} == {"a", "b", "c"}
    assert ledger.active == 2


def test_claims_start_with_the_policies_that_are_known_when_newer_ones_cannot_be_read() -> None:
    intake, ledger, revision = made()
    assert [run.claim.id for run in received(intake, [claim("a")], revision + 1)] == ["a"]
    assert ledger.active == 1


def test_a_callback_whose_members_results_fit_into_no_frame_is_buried_and_the_others_start() -> (
    None
):
    intake, ledger, revision = made(Generous())
    runs = received(
        intake, [claim("a"), claim("b", gather=("m",) * 4), claim("c", gather=("m",))], revision
    )
    assert [run.claim.id for run in runs] == ["a", "c"]
    [entry] = ledger.take()
    assert entry.run.claim.id == "b"
    assert isinstance(entry.settlement, Bury)
    assert entry.settlement.reason is Reason.RESULT_REFUSED
    assert entry.settlement.failure is not None
    assert "return references" in entry.settlement.failure.message


def test_a_claim_with_options_that_mean_nothing_is_buried_and_the_others_start() -> None:
    intake, ledger, revision = made()
    odd = claim("b", options=Options(backoff={"of another": "version"}))
    runs = received(intake, [claim("a"), odd, claim("c")], revision)
    assert [run.claim.id for run in runs] == ["a", "c"]
    [entry] = ledger.take()
    assert entry.run.claim.id == "b"
    assert isinstance(entry.settlement, Bury)
    assert entry.settlement.reason is Reason.UNDECODABLE


def test_names_of_tasks_that_nobody_has_are_no_labels() -> None:
    intake, _, revision = made()
    for number in range(50):
        record = Message("x", "maths", f"invented-{number}", b"[[],{}]").record()
        intake.receive([Claim(f"x{number}", "maths", f"t{number}", record)], revision)
    text = intake._metrics.text()
    assert "invented" not in text
    assert intake._metrics.value("millgate_unknown_tasks_total") == 50
    assert 'outcome="interrupted"} 50' in text


class Witness(Away):
    """A broker that answers nothing, and notes how many claims would be renewed while it is asked."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.asked: list[tuple[str, int]] = []

    def states(self, _ids: Any) -> Any:
        self.asked.append(("states", len(self.ledger.runs())))
        raise BrokerUnavailable("away")

    def configuration(self) -> Any:
        self.asked.append(("configuration", len(self.ledger.runs())))
        raise BrokerUnavailable("away")


def test_all_that_was_claimed_is_renewed_while_the_broker_is_asked_something() -> None:
    broker = Witness()
    intake, broker.ledger, revision = made(broker)
    claims = [claim("a"), claim("b", gather=("m",)), claim("c", gather=("m",))]
    assert [run.claim.id for run in received(intake, claims, revision + 1)] == ["a"]
    assert broker.asked == [("configuration", 3), ("states", 3)]
    back = [entry.settlement for entry in broker.ledger.take()]
    assert [(type(each), getattr(each, "delay", None)) for each in back] == [(Later, 1.0)] * 2


def test_what_has_its_end_while_others_are_looked_up_is_not_looked_up() -> None:
    broker = Generous()
    intake, ledger, revision = made(broker)
    _, callbacks = intake.receive([claim("a", gather=("m",)), claim("b", gather=("m",))], revision)
    lost, other = callbacks[0][0], callbacks[1][0]
    ledger.forget(lost)
    assert intake.gather(callbacks) == [other]
    assert ledger.take() == []


def test_each_unknown_task_is_counted_and_said_once_and_no_more_names_than_a_hundred_are_kept() -> (
    None
):
    intake, ledger, revision = made()
    said: list[str] = []
    intake._verdict.unknown = lambda run: said.append(run.task)  # type: ignore[method-assign]
    names = [f"task{number}" for number in range(120)]
    for name in (*names, "task0", "task119"):
        message = Message(name, "maths", name, b"[[],{}]")
        assert received(intake, [Claim(name, "maths", name, message.record())], revision) == []
    assert said == names[:100]
    assert intake.unknown == dict.fromkeys(names[:100], 1) | {"task0": 2}
    assert len(ledger.take()) == 122
