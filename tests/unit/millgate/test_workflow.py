"""Chains, groups and chords: what is stored at the send, and what follows from every possible end."""

from __future__ import annotations

from threading import Timer
from typing import Any

import pytest

from millgate import App, MemberFailed, Reject, chain, chord, gather, group, testing
from millgate.errors import (
    BadArguments,
    InvalidInput,
    ResultMissing,
    ResultTimeout,
    TaskCancelled,
    TaskFailed,
    UnsupportedByBroker,
)
from millgate.message import Message
from millgate.task import Task
from millgate.workflow import following


class Tasks:
    """A few tasks of one app."""

    def __init__(self) -> None:
        self.app = App("memory://")
        self.ran: list[str] = []
        self.add = self._task("add", lambda a, b: a + b)
        self.total = self._task("total", lambda numbers, extra=0: sum(numbers) + extra)
        self.same = self._task("same", lambda value=None: value)
        self.refuse = self._task("refuse", self._refuse)

    def _task(self, name: str, function: Any) -> Task[..., Any]:
        def work(*args: Any, **kwargs: Any) -> Any:
            self.ran.append(name)
            return function(*args, **kwargs)

        work.__wrapped__ = function  # type: ignore[attr-defined]
        return self.app.task(name=name)(work)

    @staticmethod
    def _refuse(*_: Any) -> None:
        raise Reject("no")


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


@pytest.fixture
def bench(tasks: Tasks) -> Any:
    with testing.memory(tasks.app) as bench:
        yield bench


# --- chains --------------------------------------------------------------------------------------


def test_each_step_is_fed_the_result_before_it(tasks: Tasks, bench: testing.Bench) -> None:
    result = chain(
        tasks.add.s(1, 2), tasks.add.s(10), tasks.same.si("end"), tasks.add.s("!")
    ).send()
    runs = bench.drain()
    assert result.result(0) == "end!"
    assert [run.message.id for run in runs if run.message] == [*result.steps, result.id]


def test_every_id_is_known_and_only_the_first_step_is_stored(
    tasks: Tasks, bench: testing.Bench
) -> None:
    result = chain(tasks.same.s(1), tasks.same.s(), tasks.same.s()).send()
    states = bench.broker.states([*result.steps, result.id])
    assert [str(state.state) for state in states] == ["waiting", "unknown", "unknown"]


def test_steps_are_joined_with_a_bar_too(tasks: Tasks, bench: testing.Bench) -> None:
    result = (tasks.same.s(1) | tasks.add.s(2) | chain(tasks.add.s(3), tasks.add.s(4))).send()
    bench.drain()
    assert result.result(0) == 10


def test_a_failed_step_ends_the_chain_and_who_waits_is_told(
    tasks: Tasks, bench: testing.Bench
) -> None:
    result = chain(tasks.same.s(1), tasks.refuse.s(), tasks.same.s()).send()
    bench.drain()
    assert tasks.ran == ["same", "refuse"]
    with pytest.raises(TaskFailed, match=rf"{result.steps[1]} ended as Rejected: .*no"):
        result.result()


def test_a_replayed_step_goes_on_with_the_rest(tasks: Tasks, bench: testing.Bench) -> None:
    result = chain(tasks.refuse.s(), tasks.same.si(7)).send()
    bench.drain()
    tasks.app._tasks["refuse"] = tasks.same  # the bug was mended
    assert bench.broker.replay([result.steps[0]]) == [result.steps[0]]
    bench.drain()
    assert result.result(0) == 7


def test_a_cancelled_chain_never_runs_its_rest(tasks: Tasks, bench: testing.Bench) -> None:
    result = chain(tasks.same.s(1), tasks.same.s()).send()
    assert result.cancel() == "removed"
    assert bench.drain() == []
    with pytest.raises(TaskCancelled):
        result.result()


def test_arguments_are_checked_with_what_will_be_fed(tasks: Tasks, bench: testing.Bench) -> None:
    with pytest.raises(BadArguments):
        chain(tasks.same.s(1), tasks.add.s()).send()
    with pytest.raises(BadArguments):
        chain(tasks.same.s(1), tasks.add.s(1, 2)).send()
    with pytest.raises(BadArguments):
        chain(tasks.add.s(1), tasks.same.s()).send()
    assert bench.drain() == []


def test_a_key_that_needs_the_fed_value_is_refused(tasks: Tasks, bench: testing.Bench) -> None:
    for rule in ("{a}", lambda a: a.name, lambda a: f"{a}"):
        task = tasks.app.task(name=f"keyed-{id(rule)}", key=rule)(lambda a: a)
        with pytest.raises(InvalidInput, match="previous step's result"):
            chain(tasks.same.s(1), task.s()).send()
        chain(tasks.same.s(1), task.options(key="k").s()).send()


def test_a_step_that_others_wait_for_is_not_unique(tasks: Tasks, bench: testing.Bench) -> None:
    unique = tasks.app.task(name="unique", unique=True)(lambda value=None: value)
    unique.send()
    result = chain(unique.s(), unique.s()).send()
    bench.drain()
    assert result.result(0) is None
    with pytest.raises(InvalidInput, match="cannot be unique"):
        chain(tasks.same.s(1), tasks.same.options(unique="u").s()).send()


def test_a_chain_whose_first_step_is_there_already_ends_with_it(
    tasks: Tasks, bench: testing.Bench
) -> None:
    first = tasks.same.options(task_id="first")
    sent = chain(first.s(1), tasks.add.s(2)).send()
    again = chain(first.s(1), tasks.add.s(2)).send()
    assert again.duplicate
    with pytest.raises(ResultTimeout):
        again.result(timeout=0)
    Timer(0.05, bench.drain).start()
    with pytest.raises(ResultMissing, match=r"step first, .*task_id"):
        again.result(timeout=10)
    assert sent.result() == 3


def test_a_repeated_chain_whose_steps_are_all_named_is_the_first_one(
    tasks: Tasks, bench: testing.Bench
) -> None:
    steps = tasks.same.options(task_id="1").s(1), tasks.add.options(task_id="2").s(2)
    sent, again = chain(*steps).send(), chain(*steps).send()
    bench.drain()
    assert sent.result() == again.result() == 3
    assert tasks.ran == ["same", "add"]


def test_a_chain_that_meets_a_step_that_is_there_already_ends_with_it(
    tasks: Tasks, bench: testing.Bench
) -> None:
    named = tasks.add.options(task_id="named")
    named.send(1, 1)
    result = chain(tasks.same.s(1), named.s(2), tasks.same.s()).send()
    bench.drain()
    with pytest.raises(ResultMissing, match="step named"):
        result.result()
    callback = tasks.total.options(task_id="callback")
    callback.send([1])
    result = chord([tasks.same.s(1)], chain(callback.s(), tasks.same.s())).send()
    bench.drain()
    with pytest.raises(ResultMissing, match="step callback"):
        result.result()


def test_a_chain_that_left_no_trace_is_not_waited_for(tasks: Tasks, bench: testing.Bench) -> None:
    quiet = tasks.same.options(result_ttl=0)
    result = chain(tasks.same.s(1), quiet.si(2)).send()
    forgotten = chain(quiet.s(1), quiet.si(2)).send()
    bench.drain()
    bench.advance("2m")
    with pytest.raises(ResultMissing, match="not known any more"):
        result.result()
    with pytest.raises(ResultMissing, match="expired"):
        forgotten.result()


@pytest.mark.parametrize("steps", [[], [1], [None]])
def test_a_chain_has_steps(steps: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="chain"):
        chain(*steps)


def test_a_group_in_a_chain_is_told_to_be_a_chord(tasks: Tasks) -> None:
    with pytest.raises(InvalidInput, match="chord"):
        chain(tasks.same.s(1), group([tasks.same.s()]))  # type: ignore[arg-type]


def test_nothing_follows_the_last_step() -> None:
    assert following(Message("m", "t", "w", b"[[],{}]"), b"1") == ()


# --- groups --------------------------------------------------------------------------------------


def test_a_group_has_a_handle_for_each_member(tasks: Tasks, bench: testing.Bench) -> None:
    results = group(tasks.add.s(number, number) for number in range(3)).send()
    more = group(
        tasks.same.s(1), chain(tasks.same.s(2), tasks.add.s(3)), group(tasks.same.s(4))
    ).send()
    bench.drain()
    assert gather([*results, *more]) == [0, 2, 4, 1, 5, 4]


def test_an_empty_group_sends_nothing(bench: testing.Bench) -> None:
    assert group([]).send() == []
    assert bench.drain() == []


@pytest.mark.parametrize("members", [[1], ["text"], [None]])
def test_members_are_signatures(members: list[Any]) -> None:
    with pytest.raises(InvalidInput, match=r"written with \.s"):
        group(members)


# --- chords --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_the_callback_gets_all_results_in_order(
    tasks: Tasks, bench: testing.Bench, count: int
) -> None:
    result = chord([tasks.same.s((number,)) for number in range(count)], tasks.same.s()).send()
    bench.drain()
    assert result.result(0) == [(number,) for number in range(count)]
    assert tasks.ran.count("same") == count + 1


def test_a_callback_may_have_arguments_and_a_chain_of_its_own(
    tasks: Tasks, bench: testing.Bench
) -> None:
    result = chord(
        group(tasks.same.s(1), tasks.same.s(2)), tasks.total.s(extra=10) | tasks.add.s(5)
    ).send()
    bench.drain()
    assert result.result(0) == 18


def test_a_member_that_returns_nothing_counts(tasks: Tasks, bench: testing.Bench) -> None:
    result = chord([tasks.same.s(), tasks.same.s(1)], tasks.same.s()).send()
    bench.drain()
    assert result.result(0) == [None, 1]


def test_a_failed_member_buries_the_callback_and_who_waits_is_told(
    tasks: Tasks, bench: testing.Bench
) -> None:
    result = chord([tasks.same.s(1), tasks.refuse.s()], tasks.total.s()).send()
    bench.drain()
    assert "total" not in tasks.ran
    with pytest.raises(TaskFailed, match="MemberFailed"):
        result.result()


def test_a_callback_may_take_failures(tasks: Tasks, bench: testing.Bench) -> None:
    result = chord([tasks.same.s(1), tasks.refuse.s()], tasks.same.s(), failed="pass").send()
    bench.drain()
    good, bad = result.result(0)
    assert good == 1
    assert isinstance(bad, MemberFailed)
    assert (bad.state, bad.error, bad.message) == ("failed", "millgate.errors.Reject", "no")


@pytest.mark.parametrize("failed", ["bury", "pass"])
def test_a_member_whose_result_is_gone_is_one_that_failed(
    tasks: Tasks, bench: testing.Bench, failed: str
) -> None:
    early, late = tasks.same.s(1), tasks.same.options(delay="2d").s(2)
    result = chord([early, late], tasks.same.s(), failed=failed).send()
    bench.drain()
    if failed == "pass":
        gone, good = result.result(0)
        assert (gone.state, gone.error) == ("unknown", "millgate.errors.ResultMissing")
        assert good == 2
    else:
        with pytest.raises(TaskFailed, match="MemberFailed"):
            result.result(0)


def test_a_cancelled_member_is_a_member_that_failed(tasks: Tasks, bench: testing.Bench) -> None:
    result = chord(
        [tasks.same.s(1), tasks.same.options(task_id="m2").s(2)], tasks.same.s(), failed="pass"
    ).send()
    bench.broker.cancel(["m2"])
    bench.drain()
    good, bad = result.result(0)
    assert (good, bad.id, bad.state) == (1, "m2", "cancelled")


def test_all_or_nothing_of_a_chord_is_stored(tasks: Tasks, bench: testing.Bench) -> None:
    with pytest.raises(BadArguments):
        chord([tasks.same.s(1), tasks.add.s(1)], tasks.total.s()).send()
    with pytest.raises(InvalidInput, match="keeps no result"):
        chord([tasks.same.options(result_ttl=0).s(1)], tasks.total.s()).send()
    assert bench.drain() == []


def test_what_cannot_be_a_chord_is_refused(tasks: Tasks, bench: testing.Bench) -> None:
    one = tasks.same.s(1)
    with pytest.raises(InvalidInput, match="'bury' or 'pass'"):
        chord([one], one, failed="ignore")
    with pytest.raises(InvalidInput, match="a chain cannot be waited for"):
        chord([chain(one, one)], one)
    with pytest.raises(InvalidInput, match="a chord cannot be a member"):
        chord([chord([one], one)], one)
    with pytest.raises(InvalidInput, match="callback"):
        chord([one], print)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"not \.si"):
        chord([one], tasks.same.si()).send()
    with pytest.raises(UnsupportedByBroker):
        chord([one], tasks.same.s()).send(connection="conn")


def test_a_replayed_member_and_its_callback_end_the_chord(
    tasks: Tasks, bench: testing.Bench
) -> None:
    result = chord(
        [tasks.same.s(1), tasks.refuse.options(task_id="bad").s()], tasks.total.s()
    ).send()
    bench.drain()
    tasks.app._tasks["refuse"] = tasks._task("mended", lambda: 5)
    bench.broker.replay(["bad"])
    bench.drain()
    bench.broker.replay([result.id])
    bench.drain()
    assert result.result(0) == 6
