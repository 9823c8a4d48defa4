"""Calls become messages, or are refused before anything is sent."""

from __future__ import annotations

import asyncio
import copy
import threading
from datetime import UTC, datetime, timedelta
from traceback import format_exception
from typing import Any

import pytest

from millgate import App, Backoff, Depends, chain, chord, gather_async, group, registered, testing
from millgate.errors import BadArguments, InvalidInput, NotEncodable, UnsupportedByBroker
from millgate.message import Message, Options
from millgate.task import Task


@pytest.fixture
def app() -> App:
    return App("memory://")


@pytest.fixture
def add(app: App) -> Task[..., Any]:
    @app.task(name="add")
    def add(a: Any, b: Any = 2, *, c: Any = 3) -> Any:
        return a + b + c

    return add


def message(task: Task[..., Any], *args: Any, **kwargs: Any) -> Message:
    return task.message(args, kwargs)


# --- calling -------------------------------------------------------------------------------------


def test_what_a_task_does_not_have_is_told_with_what_it_has(app: App) -> None:
    task = app.task(name="t")(lambda: None)
    with pytest.raises(AttributeError, match="a task has no delay; send it with send, "):
        task.delay()  # type: ignore[attr-defined]
    assert copy.copy(task).name == "t"


def test_a_task_is_still_a_function(add: Task[..., Any]) -> None:
    assert add(1) == 6
    assert add(1, b=0, c=0) == 1


def test_a_call_here_fills_dependencies_and_ends_them(app: App) -> None:
    log: list[str] = []

    def session() -> Any:
        try:
            yield "s"
        except ValueError:
            log.append("rolled back")
            raise
        log.append("committed")

    @app.task
    def task(fail: bool, s: str = Depends(session)) -> str:
        if fail:
            raise ValueError("no")
        return s

    assert task(False) == "s"
    with pytest.raises(ValueError, match="no"):
        task(True)
    assert task(False, s="mine") == "mine"
    assert log == ["committed", "rolled back"]


def test_an_async_task_is_still_a_coroutine_function(app: App) -> None:
    @app.task
    async def task(a: int, b: int = Depends(lambda: 2)) -> int:
        return a + b

    assert asyncio.run(task(1)) == 3


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "complaint"),
    [
        ((), {}, "add(a, b=2, *, c=3): missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"d": 1}, "unexpected keyword argument 'd'"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_at_the_send(
    add: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadArguments) as refused:
        add.send(*args, **kwargs)
    assert complaint in str(refused.value)
    assert isinstance(refused.value, TypeError)


SHAPES: list[Any] = [
    lambda: None,
    lambda a: None,
    lambda a, b=1: None,
    lambda a, /, b: None,
    lambda *a: None,
    lambda a, *b: None,
    lambda *, k: None,
    lambda a, b=1, *, k: None,
    lambda a, b=1, *, k=1: None,
    lambda a=1, **k: None,
]


@pytest.mark.parametrize("function", SHAPES)
@pytest.mark.parametrize("args", [(), (1,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("kwargs", [{}, {"k": 1}, {"b": 1}])
def test_a_send_takes_exactly_what_the_function_takes(
    app: App, function: Any, args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    task = app.task(name="t")(function)
    try:
        function(*args, **kwargs)
    except TypeError:
        with pytest.raises(BadArguments):
            message(task, *args, **kwargs)
    else:
        assert message(task, *args, **kwargs).task == "t"


def test_what_the_worker_provides_cannot_be_sent(app: App) -> None:
    @app.task(name="task")
    def task(a: int, db: str = Depends(lambda: "db")) -> None: ...

    with pytest.raises(BadArguments, match=r"task\(a\): .*'db'"):
        task.send(1, db="mine")
    with pytest.raises(BadArguments, match="too many"):
        task.send(1, "mine")


def test_what_stands_behind_a_dependency_is_sent_by_name(app: App) -> None:
    @app.task(name="mixed")
    def mixed(a: int, db: str = Depends(lambda: "db"), b: int = 2, *rest: int, c: int = 3) -> Any:
        return a, db, b, c

    refused = r"mixed\(a, \*, b=2, c=3\): too many positional arguments"
    with pytest.raises(BadArguments, match=refused):
        mixed.send(1, 5)  # type: ignore[arg-type]
    with testing.eager(app):
        assert mixed.send(1, b=5, c=6).result() == (1, "db", 5, 6)
        assert mixed.send(1).result() == (1, "db", 2, 3)


def test_what_cannot_travel_is_refused_with_task_and_path(add: Task[..., Any]) -> None:
    with pytest.raises(
        NotEncodable, match=r"add: args\[0\]\['x'\]\[0\] is a builtins.object"
    ) as caught:
        add.send({"x": [object()]})
    shown = "".join(format_exception(caught.value))
    assert shown.count("\nmillgate.errors.NotEncodable: ") == 1  # and no error of ours before it


def test_what_a_hook_of_the_users_raised_is_shown_once(add: Task[..., Any]) -> None:
    class Odd:
        pass

    def encode(_: Odd) -> Any:
        raise LookupError("no such field")

    registered.register(Odd, name="odd", encode=encode, decode=lambda _: Odd())
    try:
        with pytest.raises(NotEncodable, match="odd does not encode: no such field") as caught:
            add.send(Odd())
    finally:
        registered.by_class.pop(Odd)
        registered.by_name.pop("odd")
    shown = "".join(format_exception(caught.value))
    assert shown.count("\nLookupError: ") == 1
    assert shown.count("\nmillgate.errors.NotEncodable: ") == 1


# --- settings ------------------------------------------------------------------------------------


def test_a_message_says_what_the_task_says(app: App) -> None:
    task = app.task(
        name="t", topic="video", priority=7, expires="1h", result_ttl="1m", timeout=9, retries=3
    )(lambda: None)
    sent = message(task)
    assert (sent.topic, sent.task, sent.priority) == ("video", "t", 7)
    assert (sent.expires_in, sent.result_ttl) == (3600.0, 60.0)
    assert sent.options == Options()  # the worker knows its own timeouts and retries


def test_a_single_send_may_differ(add: Task[..., Any]) -> None:
    sent = message(
        add.options(
            topic="other",
            task_id="mine",
            delay="90s",
            expires=5,
            priority=9,
            key="k",
            result_ttl=0,
            timeout="1m",
            soft_timeout=30,
            retries=0,
            backoff=Backoff(initial=1),
            headers={"a": "b"},
            unique="u",
            unique_for="1h",
        ),
        1,
    )
    assert (sent.id, sent.topic, sent.delay, sent.expires_in) == ("mine", "other", 90.0, 5.0)
    assert (sent.priority, sent.key, sent.result_ttl, sent.headers) == (9, "k", 0.0, {"a": "b"})
    assert (sent.unique, sent.unique_for) == ("add:u", 3600.0)
    assert (sent.options.hard_timeout, sent.options.soft_timeout, sent.options.attempts) == (
        60.0,
        30.0,
        1,
    )
    assert sent.options.backoff is not None
    assert sent.options.backoff["initial"] == 1


def test_settings_add_up(add: Task[..., Any]) -> None:
    sent = message(add.options(priority=1, timeout=9).options(priority=2, headers={"a": "b"}), 1)
    assert (sent.priority, sent.options.hard_timeout, sent.headers) == (2, 9.0, {"a": "b"})


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"queue": "x"}, "options knows no queue; it takes at, backoff"),
        ({"delay": "soon"}, "not a duration"),
        ({"at": datetime(2026, 1, 1)}, "give an aware datetime"),  # noqa: DTZ001 -- naive is what is refused
        ({"at": 1.0}, "give an aware datetime"),
        ({"task_id": ""}, "task_id is empty"),
        ({"timeout": 5, "soft_timeout": 5}, "not below"),
        ({"headers": {"a": 1}}, "headers are texts"),
        ({"retries": -1}, "retries=-1"),
    ],
)
def test_settings_that_cannot_hold_are_refused(
    add: Task[..., Any], settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        add.options(**settings)
    assert complaint in str(refused.value)


def test_later_is_said_in_two_ways(add: Task[..., Any], app: App) -> None:
    with testing.memory(app) as bench:
        moment = datetime.fromtimestamp(bench.time.now(), UTC) + timedelta(hours=2)
        soon, later = add.send_in("1h", 1), add.send_at(moment, 2)
        assert bench.advance("59m") == []
        bench.advance("1m")
        assert (soon.state(), later.state()) == ("succeeded", "delayed")
        bench.advance("1h")
        assert later.result(0) == 7


# --- uniqueness and keys -------------------------------------------------------------------------


def test_equal_arguments_are_equal_however_they_were_written(app: App) -> None:
    task = app.task(name="t", unique=True)(lambda a, b=2, **c: None)
    first = message(task, {1: "x", 2: {3, 4}}).unique
    assert first is not None
    assert message(task, a={2: {4, 3}, 1: "x"}, b=2).unique == first
    assert message(task, {1: "x", 2: {3, 5}}).unique != first
    assert message(app.task(name="u", unique=True)(lambda a, b=2, **c: None), 1).unique != first


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("{user}", "t:7"),
        ("{user}-{kind}", "t:7-daily"),
        (lambda user, kind="": f"u{user}", "t:u7"),
        (lambda user, kind="": None, None),
    ],
)
def test_a_rule_makes_the_text_from_the_arguments(
    app: App, rule: Any, expected: str | None
) -> None:
    task = app.task(name="t", unique=rule)(lambda user, kind="daily": None)
    assert message(task, 7).unique == expected


def test_a_key_is_made_in_the_same_way(app: App) -> None:
    task = app.task(name="t", key="customer-{customer}")(lambda customer: None)
    assert message(task, 7).key == "customer-7"
    assert message(task.options(key="other"), 7).key == "other"


@pytest.mark.parametrize(
    "rule",
    ["{nobody}", lambda user: 1 / 0, lambda user: 5, lambda user: "", lambda user: "x" * 300],
)
def test_a_rule_that_fails_refuses_the_send(app: App, rule: Any) -> None:
    task = app.task(name="t", key=rule)(lambda user: None)
    with pytest.raises(
        InvalidInput, match=r"t: key (cannot be computed|must be a text|.* not among)"
    ):
        task.send(7)


def test_a_rule_that_names_no_argument_is_quoted(app: App) -> None:
    task = app.task(name="t", key="{custmer}")(lambda customer: None)
    with pytest.raises(InvalidInput, match=r"key '{custmer}' names 'custmer', which is not among"):
        task.send(7)


def test_a_second_send_answers_the_first(app: App) -> None:
    task = app.task(name="t", unique=True)(lambda a: a)
    with testing.memory(app) as bench:
        first, second, other = task.send(1), task.send(1), task.send(2)
        assert (second.id, second.duplicate, other.duplicate) == (first.id, True, False)
        bench.drain()
        assert second.result(0) == 1
        assert not task.send(1).duplicate


def test_a_task_id_is_an_idempotency_key(app: App, add: Task[..., Any]) -> None:
    with testing.memory(app) as bench:
        mine = add.options(task_id="order-7")
        assert [mine.send(1).id, mine.send(1).id] == ["order-7", "order-7"]
        assert len(bench.drain()) == 1


# --- many, elsewhere, in a transaction -----------------------------------------------------------


def test_many_calls_are_one_round_trip(app: App, add: Task[..., Any]) -> None:
    with testing.memory(app) as bench:
        calls: list[int] = []
        publish = bench.broker.publish
        bench.broker.publish = lambda *args: calls.append(len(args[0])) or publish(*args)  # type: ignore[method-assign, func-returns-value]
        results = add.send_many([(1,), {"a": 2}, add.s(3), (4, 2)])
        assert calls == [4]
        bench.drain()
        assert [result.result(0) for result in results] == [6, 7, 8, 9]
        assert len(add.send_many((number,) for number in range(2500))) == 2500
        assert calls[1:] == [1000, 1000, 500]


def test_one_bad_call_among_many_sends_nothing(app: App, add: Task[..., Any]) -> None:
    with testing.memory(app) as bench:
        with pytest.raises(BadArguments):
            add.send_many([(1,), ()])
        with pytest.raises(InvalidInput, match="tuples of arguments, not a int"):
            add.send_many([(1,), 2])  # type: ignore[list-item]
        assert bench.drain() == []


def test_many_calls_do_not_share_an_id(app: App, add: Task[..., Any]) -> None:
    with testing.eager(app):
        with pytest.raises(InvalidInput, match="add: task_id names one call, not 2"):
            add.options(task_id="x").send_many([(1,), (2,)])
        [only] = add.options(task_id="x").send_many([(1,)])
        assert only.id == "x"
        calls = [add.options(task_id=f"y{number}").s(number) for number in (1, 2, 1)]
        assert [sent.duplicate for sent in add.send_many(calls)] == [False, False, True]


def test_an_async_send_leaves_the_loop_free(app: App, add: Task[..., Any]) -> None:
    async def main() -> Any:
        result = await add.send_async(1)
        return await result.result_async(1)

    with testing.eager(app):
        assert asyncio.run(main()) == 6


def test_everything_that_is_sent_can_be_sent_from_a_loop(
    app: App, add: Task[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = threading.get_ident()
    threads: list[int] = []
    submit = app.submit

    def noting(plan: Any, connection: Any = None) -> Any:
        threads.append(threading.get_ident())
        return submit(plan, connection)

    async def main() -> list[Any]:
        ends = [
            await add.s(1).send_async(),
            await chain(add.s(1), add.s()).send_async(),
            *await group(add.s(1), add.s(2)).send_async(),
            await chord([add.s(1)], add.s(b=[], c=[])).send_async(),
            *await add.send_many_async([(3,), {"a": 4}]),
        ]
        return await gather_async(ends, 10)

    monkeypatch.setattr(app, "submit", noting)
    with testing.eager(app):
        assert asyncio.run(main()) == [6, 11, 6, 7, [6], 8, 9]
    assert len(threads) == 5
    assert here not in threads


class Transactional:
    """A broker that offers publishing in a transaction."""

    def __init__(self) -> None:
        self.published: list[tuple[Any, list[Message]]] = []

    def publish_in(self, connection: Any, messages: list[Message]) -> Any:
        from millgate.message import Receipt

        self.published.append((connection, messages))
        return [Receipt(message.id) for message in messages]


def test_a_send_in_a_transaction_goes_through_its_connection() -> None:
    broker: Any = Transactional()
    app = App(broker)
    task = app.task(name="t")(lambda a: None)
    result = task.send(1, connection="conn")  # type: ignore[call-arg]
    [(connection, [sent])] = broker.published
    assert (connection, sent.id, result.expected) == ("conn", result.id, True)
    task.options(connection="other").send(2)
    assert broker.published[1][0] == "other"


def test_a_connection_is_not_lost_in_a_call_that_is_written_down() -> None:
    app = App(Transactional())  # type: ignore[arg-type]
    task = app.task(name="t")(lambda a=None: a)
    for write in (task.options(connection="c").s, task.options(connection="c").si):
        with pytest.raises(InvalidInput, match=r"t: give the connection to the send: chain\(…\)"):
            write(1)


def test_a_task_may_have_a_connection_of_its_own() -> None:
    broker: Any = Transactional()
    app = App(broker)
    task = app.task(name="t")(lambda connection: None)
    task.options(connection="mine").send(connection="theirs")
    [(connection, [sent])] = broker.published
    assert (connection, sent.body) == ("mine", b'[[],{"connection":"theirs"}]')


def test_a_broker_without_transactions_says_so(app: App, add: Task[..., Any]) -> None:
    with testing.memory(app) as bench:
        with pytest.raises(UnsupportedByBroker, match="publish_in"):
            add.send(1, connection="conn")
        assert bench.drain() == []


def test_a_retry_keeps_its_place_as_the_unique_one(app: App) -> None:
    seen: list[Any] = []

    @app.task(name="t", unique=True, retries=1)
    def task() -> None:
        seen.append(task.send().duplicate)
        if len(seen) == 1:
            raise ValueError("no")

    with testing.memory(app) as bench:
        first = task.send()
        bench.run_due()
        assert str(first.state()) == "delayed"
        assert task.send().id == first.id
        bench.drain()
        assert seen == [True, True]
        assert not task.send().duplicate
