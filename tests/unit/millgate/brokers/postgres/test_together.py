"""Threads that ask at the same moment are answered by one question, and by none that was asked before they came."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from millgate.brokers.base import State, TaskState
from millgate.brokers.postgres.together import Together
from millgate.clock import SystemClock
from millgate.errors import BrokerUnavailable
from support.wait import eventually


class Server:
    """Answers one question at a time, when it is let."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], list[str]]] = []
        self.open = threading.Event()
        self.problem: BaseException | None = None

    def __call__(
        self, ids: Sequence[str], awaited: Sequence[str], seconds: float
    ) -> list[TaskState]:
        assert 0 < seconds <= 10
        self.asked.append((list(ids), list(awaited)))
        assert self.open.wait(10)
        if self.problem is not None:
            raise self.problem
        return [TaskState(name, State.WAITING, topic=f"of {name}") for name in ids]


class Asker(threading.Thread):
    def __init__(self, together: Together, *ids: str, awaited: bool = False) -> None:
        super().__init__()
        self.answer: list[TaskState] | BaseException = []
        self._question = together, ids, awaited
        self.start()

    def run(self) -> None:
        together, ids, awaited = self._question
        try:
            self.answer = together.states(ids, awaited=awaited)
        except BaseException as error:  # noqa: BLE001 -- for the test to look at
            self.answer = error


def gathered(together: Together, count: int) -> None:
    eventually(lambda: len(together._gathering.ids) == count)


def test_who_comes_while_one_is_asked_is_asked_for_together() -> None:
    server = Server()
    together = Together(server, 10.0, SystemClock())
    first = Asker(together, "a")
    eventually(lambda: server.asked)
    others = [Asker(together, "b", "c"), Asker(together, "c", "d", awaited=True)]
    gathered(together, 3)
    server.open.set()
    for asker in (first, *others):
        asker.join()
    assert server.asked[0] == (["a"], [])
    [(ids, awaited)] = server.asked[1:]
    assert (sorted(ids), awaited) == (["b", "c", "d"], ["c", "d"])
    assert [state.topic for state in others[1].answer] == ["of c", "of d"]  # type: ignore[union-attr]


def test_each_that_asked_together_is_told_what_went_wrong() -> None:
    server = Server()
    server.problem = BrokerUnavailable("no answer")
    together = Together(server, 10.0, SystemClock())
    askers = [Asker(together, "a")]
    eventually(lambda: server.asked)
    askers += [Asker(together, "b"), Asker(together, "c")]
    gathered(together, 2)
    server.open.set()
    for asker in askers:
        asker.join()
        assert isinstance(asker.answer, BrokerUnavailable)
    assert askers[1].answer is not askers[2].answer
    assert len(server.asked) == 2
    server.problem = None
    assert together.states(["a"])[0].id == "a"


def test_an_interrupt_of_the_one_who_asks_leaves_nobody_without_an_answer() -> None:
    server = Server()
    together = Together(server, 10.0, SystemClock())
    first = Asker(together, "a")
    eventually(lambda: server.asked)
    server.problem = KeyboardInterrupt()
    others = [Asker(together, "b"), Asker(together, "c")]
    gathered(together, 2)
    server.open.set()
    for asker in (first, *others):
        asker.join()
    assert isinstance(first.answer, KeyboardInterrupt)
    kinds = {type(asker.answer) for asker in others}
    assert kinds == {KeyboardInterrupt, BrokerUnavailable}


def test_nobody_waits_longer_than_the_deadline_for_those_before() -> None:
    server = Server()
    together = Together(server, 0.2, SystemClock())
    first = Asker(together, "a")
    eventually(lambda: server.asked)
    with pytest.raises(BrokerUnavailable, match="nor to those who asked before"):
        together.states(["b"])
    server.open.set()
    first.join()
    assert [state.id for state in together.states(["b", "a"])] == ["b", "a"]
