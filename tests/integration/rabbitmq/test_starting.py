"""Without a brokerd the first caller starts one, which ends when nobody calls; what keeps it from coming up is told."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millgate.brokers.base import State
from millgate.brokers.rabbitmq import launch
from millgate.brokers.rabbitmq.broker import RabbitBroker
from millgate.errors import BrokerRefused, PermissionMissing
from support import servers
from support.builders import a_message, some_messages
from support.local import gone
from support.rabbitmq import Brokerd, raw
from support.wait import eventually

Open = Callable[..., RabbitBroker]
Serve = Callable[..., Brokerd]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where started brokerds write their logs."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def open_auto(open_one: Open, queue: str, folder: Path) -> Iterator[Open]:
    """Opens clients that may start a brokerd; it is ended with the test."""
    pids: set[int] = set()

    def open_auto(url: str | None = None, deadline: float = 20.0) -> RabbitBroker:
        broker = open_one(queue, url or servers.rabbitmq().url, deadline)
        broker.setup()
        pids.add(pid_of(broker))
        return broker

    yield open_auto
    for pid in pids:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


def pid_of(broker: RabbitBroker) -> int:
    """Of the brokerd that answers."""
    return int(broker.server().detail["pid"])


def test_the_first_caller_starts_a_brokerd_and_the_others_join_it(open_auto: Open) -> None:
    url = servers.rabbitmq().url
    brokers: list[RabbitBroker] = []
    threads = [threading.Thread(target=lambda: brokers.append(open_auto(url))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({pid_of(broker) for broker in brokers}) == 1
    brokers[0].publish(messages := some_messages(3))
    states = brokers[2].states([message.id for message in messages])
    assert [state.state for state in states] == [State.WAITING] * 3


def test_a_started_brokerd_that_dies_is_started_again_and_knows_everything(
    open_auto: Open,
) -> None:
    broker = open_auto()
    broker.publish([message := a_message()])
    first = pid_of(broker)
    os.kill(first, signal.SIGKILL)
    assert broker.states([message.id])[0].state is State.WAITING
    second = pid_of(broker)
    assert second != first
    os.kill(second, signal.SIGKILL)


def test_a_started_brokerd_ends_when_nobody_calls_and_what_is_stored_stays(
    open_auto: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "IDLE", 1.5)
    broker = open_auto()
    broker.publish([message := a_message()])
    pid = pid_of(broker)
    eventually(lambda: gone(pid))
    assert broker.states([message.id])[0].state is State.WAITING
    assert pid_of(broker) != pid


def test_a_brokerd_of_an_operators_is_joined_and_none_is_started(
    queue: str, serve: Serve, open_auto: Open, folder: Path
) -> None:
    brokerd = serve()
    eventually(lambda: "serving" in brokerd.said())
    assert pid_of(open_auto()) == brokerd.pid
    assert not list(folder.rglob("rabbitmq-*.log"))


def test_what_keeps_a_brokerd_from_coming_up_reaches_the_caller(
    queue: str, open_one: Open, folder: Path
) -> None:
    server = servers.rabbitmq()
    broker = open_one(queue, server.add_user("caller-only", "^$", r"^amq\.default$", "^$"))
    with pytest.raises(PermissionMissing, match=f"lacks configure on millgate.{queue}.calls"):
        broker.publish([a_message()])


def test_something_else_under_our_name_reaches_the_caller(
    queue: str, open_one: Open, folder: Path
) -> None:
    with raw(servers.rabbitmq().url) as channel:
        channel.queue_declare(f"millgate.{queue}.head", durable=True)
    with pytest.raises(BrokerRefused, match="something else has a name of ours"):
        open_one(queue, servers.rabbitmq().url).publish([a_message()])


def test_a_forked_child_speaks_for_itself_and_its_parent_goes_on(
    queue: str, serve: Serve, open_one: Open
) -> None:
    serve()
    broker = open_one(queue)
    broker.publish([a_message(id="before")])
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            broker.stats()

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()  # locks are held at the moment of the fork
    children = []
    for number in range(5):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                broker.publish([a_message(id=f"child-{number}")])
                broker.close()
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 5
    stop.set()
    for thread in threads:
        thread.join()
    broker.publish([a_message(id="after")])
    names = ["before", *(f"child-{number}" for number in range(5)), "after"]
    assert {state.state for state in broker.states(names)} == {State.WAITING}
