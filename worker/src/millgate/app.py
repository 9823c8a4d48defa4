"""An app: the tasks that it has and what it sends of them. `app = App()`, `@app.task`, `task.send(…)`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from millgate import context, tracing
from millgate.clock import Clock, SystemClock
from millgate.connection import Connection
from millgate.errors import InvalidInput, UnsupportedByBroker
from millgate.hints import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload
from millgate.ids import new_id
from millgate.inject import Override, Scope, dependencies, is_async, is_generator, required
from millgate.limits import parse_duration
from millgate.message import DEFAULT_TOPIC, Message
from millgate.result import Result, Source
from millgate.rules import check
from millgate.spec import Duration, TaskSettings, TaskSpec, check_topic
from millgate.task import Task

if TYPE_CHECKING:
    from millgate.brokers.base import Broker
    from millgate.message import Receipt
    from millgate.workflow import Plan

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

#: Most messages of one publish: MAX_BATCH of the contract, which a child does without.
_BATCH = 1000
_CHAIN = attrgetter("chain")

Middleware = Callable[[context.Context], Any]
BeforeSend = Callable[[Message], Message | None]


class App:
    """Tasks, what surrounds them, and the queue that they are sent to. Made at import; connects when first used."""

    def __init__(
        self,
        broker: str | Broker | None = None,
        *,
        queue: str | None = None,
        topic: str = DEFAULT_TOPIC,
        deadline: Duration | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`broker`: a URL, an open broker, or None for MILLGATE_BROKER or MILLGATE_BROKER_FILE. `queue`: the name
        on the broker; None for MILLGATE_QUEUE or "millgate". `topic`: of tasks that name none. `deadline`: the most
        time that one send may take (seconds, "5s" or a timedelta). Raises InvalidInput."""
        check_topic(topic)
        self.topic = topic
        self.overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
        self.middlewares: list[Middleware] = []
        self.starting: list[Callable[[], Any]] = []
        self.stopping: list[Callable[[], Any]] = []
        self.scope = Scope(self.overrides)  # what lives as long as the child
        self._before_send: list[BeforeSend] = []
        self._tasks: dict[str, Task[..., Any]] = {}
        self._clock = clock or SystemClock()
        self._connection = Connection(_checked(broker), queue, _seconds(deadline))
        self._source = Source(lambda: self.broker, self._clock)

    # --- declaring -------------------------------------------------------------------------------

    @property
    def tasks(self) -> Mapping[str, TaskSpec]:
        """The registered tasks by name."""
        return {name: task.spec for name, task in self._tasks.items()}

    def spec(self, name: str) -> TaskSpec | None:
        """One task, None when it is not registered."""
        found = self._tasks.get(name)
        return None if found is None else found.spec

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, /, **settings: Unpack[TaskSettings]
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self, function: Callable[..., Any] | None = None, /, **settings: Unpack[TaskSettings]
    ) -> Any:
        """Register a function as a task: `@app.task` or `@app.task(topic="video", retries=3)`.

        Settings: see TaskSettings; what is left out is left to the topic. Raises InvalidInput.
        """
        if function is not None:
            if not callable(function):
                raise InvalidInput(
                    f"@app.task({function!r}): settings are given by name, for example @app.task(topic='video')"
                )
            return self._register(function, settings)
        return lambda function: self._register(function, settings)

    def _register(self, function: Callable[..., Any], settings: TaskSettings) -> Task[..., Any]:
        spec = TaskSpec.parse(
            settings,
            name=settings.get("name") or _name(function),
            topic=settings.get("topic") or self.topic,
            is_async=is_async(function),
            function=function,
            depends=dependencies(function),
        )
        if spec.schedule is not None and (names := required(function)):
            raise InvalidInput(
                f"{spec.name}: a schedule calls it without arguments; give {', '.join(map(repr, names))} a default"
            )
        known = self._tasks.get(spec.name)
        if known is not None and not _same(known.spec.function, function):
            raise InvalidInput(f"there is a task {spec.name!r} already; give one of them a name=…")
        task: Task[..., Any] = Task(self, spec)
        if spec.schedule is not None and (spec.key or spec.unique):
            call = task.message((), {})
            task = Task(self, replace(spec, slot_key=call.key, slot_unique=call.unique))
        self._tasks[spec.name] = task
        return task

    def on_start(self, function: F) -> F:
        """Run `function` when a child starts, before its first task: the place to open connections."""
        self.starting.append(function)
        return function

    def on_stop(self, function: F) -> F:
        """Run `function` when a child ends, after its last task; the latest registered first."""
        self.stopping.insert(0, function)
        return function

    def middleware(self, function: F) -> F:
        """Run `function` around each run: a generator that takes the context and yields once.

        At its `yield` it receives the result, or the task's exception is raised. The first registered is outermost.
        If it returns before it yields, the task does not run and that is the result; what it returns after is
        ignored if None, else it replaces the result; an exception that it swallows makes the run a success.
        Raises InvalidInput.
        """
        if not is_generator(function):
            raise InvalidInput(
                f"{function!r} is no middleware: write a function that takes the context and yields once"
            )
        self.middlewares.append(function)
        return function

    def before_send(self, function: F) -> F:
        """Show `function` each message before it is sent; it may answer another one, or raise to refuse."""
        self._before_send.append(function)
        return function

    def override(self, provider: Callable[..., Any], replacement: Callable[..., Any]) -> Override:
        """`with app.override(provider, replacement):` gives dependants what `replacement` makes, for tests."""
        if not callable(replacement):
            raise InvalidInput(
                f"override takes a function that makes the value: lambda: {replacement!r}"
            )
        return Override(self.overrides, provider, replacement)

    @property
    def needs_loop(self) -> bool:
        """Whether a child of this app needs an event loop."""
        hooks = (*self.starting, *self.stopping)
        return any(task.spec.is_async for task in self._tasks.values()) or any(map(is_async, hooks))

    # --- sending ---------------------------------------------------------------------------------

    @property
    def broker(self) -> Broker:
        """The broker, opened at the first use in each process. Raises InvalidSettings when none is named."""
        return self._connection.broker()

    def use(self, broker: str | Broker | None) -> Callable[[], None]:
        """Send to another broker from now on; answers a function that restores the former one. For tests and tools."""
        former, self._connection = self._connection, Connection(broker, None, None)

        def restore() -> None:
            self.close()
            self._connection = former

        return restore

    def lend(self, make: Callable[[Callable[[], Broker]], Broker]) -> None:
        """Use what `make` answers as the broker; `make` is given what opens the real one. For whoever runs tasks.

        What this process forks has the real one: it cannot share what this one is lent.
        """
        real = self._connection
        self._connection = Connection(make(real.broker), None, None, forks=real)

    def close(self) -> None:
        """Close the broker of this process, if it was opened; the next use opens it again."""
        self._connection.close()

    def get(self, id: str, *, expected: bool = False) -> Result:  # noqa: A002 -- the field's name everywhere
        """The handle of something sent before. `expected`: it may be unknown yet, as the end of a chain is."""
        return Result(self._source, id, expected=expected)

    def new_id(self) -> str:
        """An id for a message or group; ids sort by time."""
        return new_id(self._clock.now())

    def submit(self, plan: Plan, connection: Any = None) -> list[Result]:
        """Publish a plan; answers its handles. What workflows and tasks send goes through here.

        All or none, but for more than a thousand messages without a group: then all or none of each thousand.
        """
        parent, trace = _surroundings()
        if parent or trace or self._before_send or plan.group or any(map(_CHAIN, plan.messages)):
            plan = plan.prepared(lambda message: self._prepare(message, parent, trace))
        group, messages = plan.group, plan.messages
        if connection is not None:
            receipts = self._publish_in(connection, messages, group)
        elif group is not None:
            receipts = self.broker.publish(messages, group)
        else:
            receipts = []
            for start in range(0, len(messages), _BATCH):
                receipts += self.broker.publish(messages[start : start + _BATCH])
        if group is not None:
            return [self._handle(ids, None, unsure=True) for ids in plan.handles]
        pairs = zip(plan.handles, receipts, strict=True)
        return [self._handle(ids, receipt, unsure=connection is not None) for ids, receipt in pairs]

    def _publish_in(
        self, connection: Any, messages: Sequence[Message], group: Any
    ) -> list[Receipt]:
        broker = self.broker
        publish_in = getattr(broker, "publish_in", None)
        if publish_in is None:
            raise UnsupportedByBroker(
                f"{type(broker).__name__} cannot publish in a transaction (publish_in);"
                " send after the commit, or use PostgreSQL"
            )
        if group is not None:
            raise UnsupportedByBroker(
                "a chord cannot be sent in a transaction; send it after the commit"
            )
        return list(publish_in(connection, messages))

    def _handle(self, ids: tuple[str, ...], receipt: Receipt | None, *, unsure: bool) -> Result:
        if receipt is not None and len(ids) == 1:  # its id may be another one than was planned
            return Result(self._source, receipt.id, duplicate=receipt.duplicate, expected=unsure)
        *steps, last = ids
        duplicate = receipt is not None and receipt.duplicate
        return Result(self._source, last, steps=steps, duplicate=duplicate, expected=unsure)

    def _prepare(
        self, message: Message, parent: Mapping[str, str], trace: Mapping[str, str]
    ) -> Message:
        """The message with these headers beside its own, as the before_send functions want it; its steps too.
        A trace that it has already (a task may pass its own headers on) gives way to the one that is followed."""
        if parent or trace:
            message = replace(message, headers={**parent, **message.headers, **trace})
        for function in self._before_send:
            message = function(message) or message
        if message.chain:
            steps = tuple(self._prepare(step, parent, trace) for step in message.chain)
            message = replace(message, chain=steps)
            for step in message.chain:
                check(step)  # the broker sees only the first one before it is too late
        return message


def _surroundings() -> tuple[dict[str, str], dict[str, str]]:
    """Headers of where this code runs: the task that it is part of, and the trace that is followed."""
    here = context.running()
    trace: dict[str, str] = {}
    tracing.inject(trace)
    return ({} if here is None else {"parent": here.id}), trace


def _checked(broker: str | Broker | None) -> str | Broker | None:
    if broker is None or isinstance(broker, str) or type(broker).__module__ != "builtins":
        return broker
    raise InvalidInput(f"App takes a broker's URL, for example 'local://', not {broker!r}")


def _seconds(deadline: Duration | None) -> float | None:
    seconds = None if deadline is None else parse_duration(deadline)
    if seconds is not None and not seconds > 0:
        raise InvalidInput(f"deadline={deadline!r}: use more than 0")
    return seconds


def _name(function: Callable[..., Any]) -> str:
    """module.function; a script that is run as a program has the name under which a worker imports it."""
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        path = getattr(main, "__file__", None) or "__main__"
        module = spec.name if spec is not None else os.path.basename(path).removesuffix(".py")  # noqa: PTH119
    return f"{module}.{function.__qualname__}".replace(".<locals>", "")


def _same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether a module was imported a second time, or reloaded."""
    code, again = getattr(one, "__code__", None), getattr(other, "__code__", None)
    if code is None or again is None:
        return one is other
    return bool(
        code.co_filename == again.co_filename and code.co_firstlineno == again.co_firstlineno
    )
