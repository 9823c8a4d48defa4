"""What the desk does for runs: locks that end with their run however it ends, renewed whatever else there is to do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from millgate.brokers.base import CancelState
from millgate.brokers.memory import MemoryBroker
from millgate.clock import SystemClock
from millgate.message import Group, Receipt
from millgate.runtime.desk import Desk
from millgate.runtime.lent import Lent
from millgate.runtime.logs import Journal
from support.builders import a_message, some_messages
from support.wait import eventually
from support.working import Hand


class Scene:
    """A desk at work beside a memory broker."""

    def __init__(self) -> None:
        self.clock, self.broker = SystemClock(), MemoryBroker()
        self.journal = Journal(
            self.clock, json_lines=True, level="error", descriptor=os.open(os.devnull, os.O_WRONLY)
        )
        connection: Any = SimpleNamespace(broker=self.broker)
        self.desk = Desk("w", connection, self.journal, self.clock)
        self.answers: list[tuple[bool, Any]] = []
        work = (self.desk.run, self.desk.keep_locks)
        self._threads = [threading.Thread(target=target) for target in work]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def ask(self, run: int, verb: str, *arguments: Any) -> None:
        self.desk.ask(
            run, verb, list(arguments), lambda ok, value: self.answers.append((ok, value))
        )

    def held(self) -> list[str]:
        return [lock.holder for lock in self.broker.locks()]

    def close(self) -> None:
        self.desk.stop()
        for thread in self._threads:
            thread.join(10)
        self.journal.close()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    made.begin()
    yield made
    made.close()


def test_a_lock_goes_back_with_the_run_that_held_it(scene: Scene) -> None:
    scene.ask(1, "acquire_lock", "a", 30.0, 0.0)
    eventually(scene.held)
    scene.desk.ended(2)
    scene.desk.ended(1)
    eventually(lambda: not scene.held())
    assert scene.answers == [(True, 1)]


@pytest.mark.parametrize("wait", [0.0, 20.0])
def test_a_lock_that_comes_after_the_end_of_its_run_goes_back_at_once(
    scene: Scene, wait: float
) -> None:
    reached, go_on = threading.Event(), threading.Event()
    acquire = scene.broker.acquire

    def slowly(*arguments: Any) -> Any:
        reached.set()
        assert go_on.wait(10)
        return acquire(*arguments)

    scene.broker.acquire = slowly  # type: ignore[method-assign]
    scene.ask(1, "acquire_lock", "a", 30.0, wait)
    assert reached.wait(10)
    scene.desk.ended(1)  # a soft timeout, say
    go_on.set()
    eventually(lambda: scene.answers)
    assert scene.answers == [(True, None)]
    assert not scene.held()
    assert not scene.desk.holds_locks


def test_who_waits_for_a_lock_gives_up_with_its_run(scene: Scene) -> None:
    scene.broker.acquire("a", "somebody", 60.0)
    scene.ask(1, "acquire_lock", "a", 30.0, 600.0)
    eventually(lambda: scene.desk.holds_locks)
    scene.desk.ended(1)
    eventually(lambda: scene.answers)
    assert scene.held() == ["somebody"]
    assert not scene.desk.holds_locks


def test_locks_are_renewed_however_much_there_is_to_send(scene: Scene) -> None:
    scene.ask(1, "acquire_lock", "a", 0.6, 0.0)
    eventually(scene.held)
    renewed = threading.Event()
    renew = scene.broker.renew
    scene.broker.renew = lambda *given: (renew(*given), renewed.set())[0]  # type: ignore[method-assign]
    going = True

    def again(_ok: bool, _value: Any) -> None:
        if going:
            scene.desk.ask(0, "states", [[a_message().id]], again)

    for _ in range(3):  # there is always one more question
        again(True, None)
    try:
        assert renewed.wait(10)
    finally:
        going = False


def test_a_lock_is_renewed_after_a_time_in_which_one_was_only_waited_for(scene: Scene) -> None:
    scene.broker.acquire("a", "somebody", 60.0)
    scene.ask(1, "acquire_lock", "a", 30.0, 600.0)
    scene.ask(2, "acquire_lock", "b", 0.6, 0.0)
    eventually(lambda: len(scene.held()) == 2)
    scene.desk.ended(2)
    eventually(lambda: len(scene.held()) == 1)
    time.sleep(0.5)  # b would have been renewed by now: only what is waited for is left
    renewed = threading.Event()
    renew = scene.broker.renew
    scene.broker.renew = lambda *given: (renew(*given), renewed.set())[0]  # type: ignore[method-assign]
    scene.ask(3, "acquire_lock", "c", 0.6, 0.0)
    assert renewed.wait(10)


def test_where_no_thread_is_to_be_had_the_task_that_asks_is_told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        scene.ask(1, "wait", ["a"], 5.0)
        scene.ask(1, "acquire_lock", "a", 30.0, 5.0)
    assert [(ok, value[0]) for ok, value in scene.answers] == [(False, "BrokerUnavailable")] * 2
    assert not scene.desk.holds_locks
    scene.ask(1, "acquire_lock", "a", 30.0, 0.0)
    eventually(scene.held)


def test_locks_are_renewed_while_the_broker_does_not_answer_a_question(scene: Scene) -> None:
    scene.ask(1, "acquire_lock", "a", 0.6, 0.0)
    eventually(scene.held)
    renewed, go_on = threading.Event(), threading.Event()
    renew = scene.broker.renew
    scene.broker.renew = lambda *given: (renew(*given), renewed.set())[0]  # type: ignore[method-assign]
    scene.broker.states = lambda _ids: go_on.wait(20) and []  # type: ignore[method-assign,return-value]
    scene.ask(2, "states", ["x"])
    renewed.clear()
    try:
        assert renewed.wait(10)
        assert not go_on.is_set()
    finally:
        go_on.set()


def test_a_lock_that_is_given_back_during_its_renewal_is_not_lost(scene: Scene) -> None:
    said: list[str] = []
    scene.journal.say = lambda _level, event, *_, **__: said.append(event)  # type: ignore[method-assign]
    renewing = threading.Event()

    def renew(*_: Any) -> bool:
        renewing.set()
        eventually(lambda: not scene.desk.holds_locks)
        return False

    scene.broker.renew = renew  # type: ignore[method-assign]
    scene.ask(1, "acquire_lock", "a", 0.3, 0.0)
    assert renewing.wait(10)
    scene.ask(1, "release_lock", "a", 1)
    eventually(lambda: len(scene.answers) == 2)
    assert scene.answers[1][0]
    scene.close()
    assert said == []


class Through:
    """A link to the desk: what is asked and answered goes over the wire's form."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def ask(self, run: int, verb: str, *arguments: Any) -> Any:
        answered = threading.Event()
        answer: list[Any] = []

        def hear(ok: bool, value: Any) -> None:
            answer.extend((ok, value))
            answered.set()

        self._scene.desk.ask(run, verb, over_the_wire(list(arguments)), hear)
        assert answered.wait(10)
        ok, value = over_the_wire(answer)
        assert ok, value
        return value


def over_the_wire(value: Any) -> Any:
    return msgpack.unpackb(msgpack.packb(value))


def test_a_task_sees_the_broker_as_it_is(scene: Scene) -> None:
    broker, lent = scene.broker, Lent(Through(scene), lambda: scene.broker)  # type: ignore[arg-type]
    first, second = some_messages(2, key="k", chain=(a_message(topic="later"),), headers={"h": "é"})
    callback = a_message(topic="callback")
    group = Group("g", (first.id, second.id), callback, require_all=False)
    assert lent.publish([first, second], group) == [Receipt(first.id), Receipt(second.id)]
    assert lent.publish([first]) == [Receipt(first.id, duplicate=True)]
    hand = Hand(broker)
    claims = hand.claim(2)
    assert [claim.message() for claim in claims] == [first, second]
    broker.progress(claims[0].ref, b"half")
    hand.bury(claims[0])
    hand.ack(claims[1], result=b"1")
    assert hand.one("callback").message().gather == (first.id, second.id)
    known = [first.id, second.id, callback.id, "nobody"]
    assert lent.states(known) == broker.states(known)
    assert lent.wait(known, 5.0) == broker.wait(known, 5.0)
    waiting, running = some_messages(2, topic="other")
    broker.publish([running])
    hand.one("other")
    broker.publish([waiting])
    assert lent.cancel([waiting.id, running.id, second.id, "nobody"]) == [
        CancelState.REMOVED,
        CancelState.SIGNALLED,
        CancelState.FINISHED,
        CancelState.UNKNOWN,
    ]


def test_a_task_holds_locks_of_the_broker(scene: Scene) -> None:
    broker, lent = scene.broker, Lent(Through(scene), lambda: scene.broker)  # type: ignore[arg-type]
    lock = lent.acquire("a", "me", 30.0)
    assert lock is not None
    assert [(one.name, one.holder, one.fence) for one in broker.locks()] == [
        ("a", "me", lock.fence)
    ]
    assert 0 < lock.left <= 30.0
    assert lent.acquire("a", "you", 30.0) is None
    assert lent.renew("a", "me", lock.fence, 60.0)
    assert broker.locks()[0].left > 30.0
    assert not lent.renew("a", "me", lock.fence + 1, 60.0)
    assert not lent.release("a", "me", lock.fence + 1)
    assert lent.release("a", "me", lock.fence)
    assert not lent.release("a")
    assert broker.locks() == []


def test_what_a_task_may_not_ask_is_answered_with_the_error(scene: Scene) -> None:
    scene.ask(0, "publish", [a_message(id="a b").record()], None)
    scene.ask(0, "purge", "default")
    scene.ask(0, "acquire", "x" * 2000, "me", 30.0)
    eventually(lambda: len(scene.answers) == 3)
    assert [ok for ok, _ in scene.answers] == [False] * 3
    assert [error for _, (error, _) in scene.answers] == [
        "NotDecodable",
        "BrokerError",
        "InvalidInput",
    ]
