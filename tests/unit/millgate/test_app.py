"""The registry of tasks and the door to the broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millgate import App, Depends, current, testing
from millgate.brokers.memory import MemoryBroker
from millgate.errors import BrokerError, InvalidInput, InvalidMessage, InvalidSettings
from millgate.message import Message


@pytest.fixture
def app() -> App:
    return App("memory://")


# --- registering ---------------------------------------------------------------------------------


def some_task() -> None: ...


def test_a_task_is_named_by_module_and_function(app: App) -> None:
    task = app.task(some_task)
    assert task.name == f"{__name__}.some_task"
    assert list(app.tasks) == [task.name]
    assert app.spec(task.name) is task.spec
    assert app.spec("other") is None


def test_a_task_takes_the_topic_of_its_app() -> None:
    app = App("memory://", topic="video")
    assert app.task(some_task).spec.topic == "video"
    assert app.task(name="b", topic="mail")(some_task).spec.topic == "mail"


def test_two_functions_cannot_have_one_name(app: App) -> None:
    app.task(name="t")(lambda: 1)
    with pytest.raises(InvalidInput, match="'t' already"):
        app.task(name="t")(lambda: 2)


def test_a_module_that_is_imported_again_replaces_its_tasks(app: App) -> None:
    first, second = (lambda: None for _ in range(2))  # one place in the source
    app.task(name="t")(first)
    app.task(name="t")(second)
    spec = app.spec("t")
    assert spec is not None
    assert spec.function is second


def test_a_script_names_its_tasks_as_a_worker_imports_it(tmp_path: Path) -> None:
    script = tmp_path / "tasks.py"
    script.write_text(
        "from millgate import App\napp = App()\n@app.task\ndef work(): ...\nprint(work.name)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "tasks.work\n"


def test_async_tasks_are_known_as_such(app: App) -> None:
    async def coroutine() -> None: ...

    assert not app.needs_loop
    assert app.task(coroutine).spec.is_async
    assert app.needs_loop


# --- the broker ----------------------------------------------------------------------------------


def test_nothing_is_opened_before_it_is_needed() -> None:
    App("postgresql://nobody@127.0.0.1:1/none").task(some_task)
    App("nonsense")


def test_a_broker_is_named_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MILLGATE_BROKER", "memory://named-by-environment")
    assert isinstance(App().broker, MemoryBroker)
    monkeypatch.delenv("MILLGATE_BROKER")
    secret = tmp_path / "url"
    secret.write_text("memory://in-a-file\n")
    monkeypatch.setenv("MILLGATE_BROKER_FILE", str(secret))
    assert isinstance(App().broker, MemoryBroker)
    secret.unlink()
    with pytest.raises(InvalidSettings, match="cannot read"):
        App().broker  # noqa: B018 -- opening is what is tested


def test_no_broker_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLGATE_BROKER", raising=False)
    monkeypatch.delenv("MILLGATE_BROKER_FILE", raising=False)
    with pytest.raises(InvalidSettings, match="set MILLGATE_BROKER"):
        App().task(some_task).send()


def test_an_unknown_scheme_is_refused_without_its_password() -> None:
    with pytest.raises(InvalidSettings, match=r"unknown scheme") as refused:
        App("kafka://user:secret@host").broker  # noqa: B018 -- opening is what is tested
    assert "secret" not in str(refused.value)


def test_one_broker_is_opened_for_one_process(app: App) -> None:
    assert app.broker is app.broker
    before = app.broker
    app.close()
    assert app.broker is not before


def test_a_forked_child_opens_a_broker_of_its_own(app: App) -> None:
    parent = app.broker
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"same" if app.broker is parent else b"own")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 10) == b"own"
    assert app.broker is parent
    os.close(reader)
    os.close(writer)


def test_a_fork_while_another_thread_opens_does_not_lock_the_child(app: App) -> None:
    from millgate import connection as module

    reader, writer = os.pipe()
    with module._opening.lock:
        pid = os.fork()
        if pid == 0:
            os.write(writer, type(app.broker).__name__.encode())
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 20) == b"MemoryBroker"
    os.close(reader)
    os.close(writer)


# --- what surrounds a send -----------------------------------------------------------------------


def test_before_send_sees_and_may_change_each_message(app: App) -> None:
    from dataclasses import replace

    seen: list[str] = []

    @app.before_send
    def look(message: Message) -> None:
        seen.append(message.task)

    @app.before_send
    def stamp(message: Message) -> Message:
        return replace(message, headers={**message.headers, "tenant": "a"})

    task = app.task(name="t")(lambda *_: current().headers["tenant"])
    with testing.eager(app):
        from millgate import chain

        assert task.send().result(0) == "a"
        assert chain(task.s(), task.s()).send().result(0) == "a"
    assert seen == ["t"] * 3


def test_the_handle_of_a_message_that_was_given_another_id(app: App) -> None:
    from dataclasses import replace

    app.before_send(lambda message: replace(message, id="mine"))
    with testing.memory(app) as bench:
        sent = app.task(some_task).send()
        bench.drain()
        assert sent.id == "mine"
        assert sent.state() == "succeeded"


def test_the_handles_of_chains_and_chords_whose_messages_were_given_other_ids(app: App) -> None:
    from dataclasses import replace

    from millgate import chain, chord, group

    app.before_send(lambda message: replace(message, id=f"mine:{message.id}"))
    task = app.task(name="t")(lambda *given: list(given))
    with testing.memory(app) as bench:
        chained = chain(task.s(1), task.s(2)).send()
        together = chord([task.s(3), task.s(4)], chain(task.s(5), task.s(6))).send()
        beside = group(task.s(7), chain(task.s(8), task.s(9))).send()
        bench.drain()
        assert chained.result(0) == [[1], 2]
        assert together.result(0) == [[[[3], [4]], 5], 6]
        assert [handle.result(0) for handle in beside] == [[7], [[8], 9]]
        for handle in (chained, together, *beside):
            assert all(id.startswith("mine:") for id in (*handle.steps, handle.id))  # noqa: A001


def test_before_send_may_refuse(app: App) -> None:
    @app.before_send
    def refuse(message: Message) -> None:
        raise InvalidInput("closed")

    with testing.memory(app) as bench:
        with pytest.raises(InvalidInput, match="closed"):
            app.task(some_task).send()
        assert bench.drain() == []


def test_what_a_task_sends_carries_its_id(app: App) -> None:
    child = app.task(name="child")(lambda: current().headers.get("parent"))
    parent = app.task(name="parent")(lambda: [current().id, child.send().result(0)])
    with testing.eager(app):
        mine, seen = parent.send().result(0)
    assert mine == seen


def test_a_bad_step_of_a_chain_is_refused_before_the_first_one_runs(app: App) -> None:
    from millgate import chain

    task = app.task(name="t")(lambda *_: None)
    with testing.memory(app) as bench:
        with pytest.raises(InvalidMessage, match="priority"):
            chain(task.s(), task.options(priority=10).s()).send()
        assert bench.drain() == []


# --- for tests -----------------------------------------------------------------------------------


def test_an_override_ends_with_its_block(app: App) -> None:
    def provider() -> str:
        return "real"

    task = app.task(name="t")(lambda p=Depends(provider): p)
    with app.override(provider, lambda: "fake"):
        with app.override(provider, lambda: "other"):
            assert task() == "other"
        assert task() == "fake"
    assert task() == "real"


def test_the_handle_of_something_sent_elsewhere(app: App) -> None:
    task = app.task(name="t")(lambda: 5)
    with testing.eager(app):
        sent = task.send()
        assert app.get(sent.id).result(0) == 5


@pytest.fixture
def silent() -> Iterator[tuple[str, Any]]:
    """A port on which somebody listens and never answers."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"postgresql://u:p@127.0.0.1:{server.getsockname()[1]}/db", server


def test_a_send_to_a_broker_that_never_answers_ends_at_its_deadline(
    silent: tuple[str, Any],
) -> None:
    from millgate.clock import SystemClock

    url, _ = silent
    task = App(url, deadline=2.0).task(name="t")(lambda: None)
    began = SystemClock().monotonic()
    with pytest.raises(BrokerError):
        task.send()
    assert SystemClock().monotonic() - began < 6.0  # the first send imports the driver, too


def test_a_closed_port_is_a_typed_error() -> None:
    task = App("postgresql://u:p@127.0.0.1:1/db", deadline=1.0).task(name="t")(lambda: None)
    with pytest.raises(BrokerError):
        task.send()
