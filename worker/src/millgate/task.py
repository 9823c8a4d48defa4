"""The handle of a registered task: call it here, or send it to be run elsewhere, now or later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from millgate import codec
from millgate.errors import BadArguments, InvalidInput, MillgateError, NotEncodable
from millgate.hints import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
)
from millgate.inject import Dependency, Scope
from millgate.message import MAX_KEY, Message
from millgate.sending import Sending, SendSettings, Standing, parse
from millgate.spec import Duration, Rule, TaskSettings, TaskSpec, TaskWire
from millgate.workflow import Plan, Sender, Signature

if TYPE_CHECKING:
    import inspect

    from millgate.result import Result

__all__ = ["Home", "SendSettings", "Task", "TaskSettings", "TaskSpec", "TaskWire"]

P = ParamSpec("P")
R = TypeVar("R")


class Home(Sender, Protocol):
    """What a task needs of its app."""

    overrides: dict[Callable[..., Any], Callable[..., Any]]


class Unknown:
    """In place of an argument that the previous step of a chain will give: nothing can be computed from it."""

    def __getattr__(self, name: str) -> Any:
        return str(self)

    def __format__(self, format_spec: str) -> str:
        return str(self)

    def __str__(self) -> str:
        raise InvalidInput("a key cannot be computed from the previous step's result")


_UNKNOWN: Final = Unknown()


class Task(Generic[P, R]):
    """A registered task. Calling it runs the function here; the `send` family queues it."""

    __slots__ = (
        "__wrapped__",
        "_positional",
        "_sending",
        "_signature",
        "_standing",
        "home",
        "spec",
    )

    def __init__(self, home: Home, spec: TaskSpec, sending: Sending | None = None) -> None:
        self.home = home
        self.spec = spec
        self._sending = sending or Sending()
        self._standing = Standing.of(spec, self._sending)
        self._signature: inspect.Signature | None = None
        self._positional: range | None = None
        self.__wrapped__ = spec.function

    def __repr__(self) -> str:
        return f"Task({self.name!r})"

    @property
    def name(self) -> str:
        """Under which workers know it."""
        return self.spec.name

    @property
    def sender(self) -> Sender:
        """The app that it belongs to."""
        return self.home

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function in this process, its dependencies filled in."""
        function: Callable[..., Any] = self.spec.function
        if not self.spec.depends:
            return function(*args, **kwargs)  # type: ignore[no-any-return]
        scope = Scope(self.home.overrides)
        call = scope.call_async if self.spec.is_async else scope.call
        return call(function, self.spec.depends, args, dict(kwargs))  # type: ignore[return-value]

    if not TYPE_CHECKING:  # for a type checker there is nothing else

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"a task has no {name}; send it with send, send_async, send_in, send_at, send_many or options(…).send"
            )

    # --- sending ---------------------------------------------------------------------------------

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Queue a call; answers when the broker has stored it, within the broker's deadline.

        `connection=` (unless the task itself takes one of that name) sends it when that database connection's
        transaction commits. Raises BadArguments, NotEncodable and other kinds of InvalidInput (nothing was sent),
        QueueFull, BrokerUnavailable (unknown whether it was sent; repeating with the same `task_id` is safe).
        """
        named: dict[str, Any] = dict(kwargs)
        connection = self._connection(named)
        made = self.message(args, named)
        return self.home.submit(Plan((made,), ((made.id,),)), connection)[0]

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        """As `send`, in a thread, so that the event loop stays free."""
        import asyncio

        return await asyncio.to_thread(self.send, *args, **kwargs)

    def send_in(self, delay: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Queue a call that starts after `delay` (seconds, "15m" or a timedelta), by the broker's clock."""
        if delay is None:
            raise InvalidInput("send_in takes a time first, such as 60 or '15m', not None")
        return self.options(delay=delay).send(*args, **kwargs)

    def send_at(self, at: datetime, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Queue a call that starts at an aware datetime; a naive one is refused."""
        return self.options(at=at).send(*args, **kwargs)

    def send_many(
        self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any] | Signature]
    ) -> list[Result]:
        """Queue many calls in one round trip, all or none of each thousand: tuples of arguments, mappings of named
        ones, or signatures of this app."""
        if not isinstance(calls, Iterable):
            raise InvalidInput(f"send_many takes several calls, not a {type(calls).__name__}")
        made = [self._called(call) for call in calls]
        # all but the first would be its duplicates
        if self._sending.task_id is not None and len(made) > 1:
            raise InvalidInput(
                f"{self.name}: task_id names one call, not {len(made)}; give each its own: options(task_id=…).s(…)"
            )
        plan = Plan(tuple(made), tuple((message.id,) for message in made))
        return self.home.submit(plan, self._sending.connection)

    async def send_many_async(
        self, calls: Iterable[tuple[Any, ...] | Mapping[str, Any] | Signature]
    ) -> list[Result]:
        """As `send_many`, in a thread, so that the event loop stays free."""
        import asyncio

        return await asyncio.to_thread(self.send_many, calls)

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """The call written down, for a chain, group or chord; in a chain it is fed the result before it."""
        return self._written(args, kwargs, feed=True)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """As `s`, but it takes only what is given here."""
        return self._written(args, kwargs, feed=False)

    def _written(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, feed: bool) -> Signature:
        # of several tasks that are sent together, one has it
        if self._sending.connection is not None:
            raise InvalidInput(
                f"{self.name}: give the connection to the send: chain(…).send(connection=…)"
            )
        return Signature(self, args, kwargs, feed)

    def options(self, **settings: Unpack[SendSettings]) -> Task[P, R]:
        """This task with settings for what is sent through the answer. Raises InvalidInput."""
        made = parse(self._sending, settings)
        if "unique_for" in made.limits and not (made.unique or self.spec.unique):
            raise InvalidInput("unique_for says how long; give unique=True or a rule too")
        return Task(self.home, self.spec, made)

    # --- the message -----------------------------------------------------------------------------

    def message(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        fed: bool = False,
        alone: bool = True,
    ) -> Message:
        """The call as a message, not sent. `fed`: a first argument comes later. Not `alone`: others wait for this
        id, so it cannot become the duplicate of another message."""
        sending, standing = self._sending, self._standing
        given = (_UNKNOWN, *args) if fed else args
        needed = standing.computed or not self._fits(given, kwargs)
        bound = self._bind(given, kwargs) if needed else None
        try:
            body = codec.encode_call(args, kwargs)
        except NotEncodable as error:
            # what a class's own hook raised is shown too, and nothing of ours twice
            raise NotEncodable(f"{self.spec.name}: {error}") from error.__cause__
        return Message(  # by position, which is faster: the fields in their order
            sending.task_id or self.home.new_id(),
            standing.topic,
            self.spec.name,
            body,
            standing.priority,
            sending.key or (None if bound is None else self._key(bound)),
            sending.delay,
            sending.at,
            standing.expires,
            None,
            None if bound is None else self._unique(bound, alone),
            standing.unique_for,
            standing.result_ttl,
            None,
            (),
            False,
            standing.options,
            sending.headers,
        )

    def _called(self, call: tuple[Any, ...] | Mapping[str, Any] | Signature) -> Message:
        if type(call) is tuple:
            return self.message(call, {})
        if isinstance(call, Signature):
            return call.message()
        if isinstance(call, Mapping):
            return self.message((), dict(call))
        if isinstance(call, tuple | list):
            return self.message(tuple(call), {})
        raise InvalidInput(
            f"send_many takes tuples of arguments, not a {type(call).__name__}; write (value,)"
        )

    def _connection(self, named: dict[str, Any]) -> Any:
        if "connection" in named and "connection" not in self._signed().parameters:
            return named.pop("connection")
        return self._sending.connection

    def _signed(self) -> inspect.Signature:
        """The signature that callers see: without what the worker fills in."""
        if self._signature is None:
            import inspect

            whole = inspect.signature(self.spec.function)
            self._signature = inspect.Signature(list(_seen(whole.parameters.values())))
        return self._signature

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        signature = self._signed()
        try:
            return signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadArguments(f"{self.spec.name}{signature}: {error}") from None

    def _fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the arguments fit at first sight, at a tenth of the price; if not, `_bind` has the last word."""
        if self._positional is None:
            self._positional = _positional(self._signed())
        return not kwargs and len(args) in self._positional

    def _key(self, bound: inspect.BoundArguments) -> str | None:
        rule = self.spec.key
        return self._text("key", rule, bound) if rule else None

    def _unique(self, bound: inspect.BoundArguments, alone: bool) -> str | None:
        rule = self.spec.unique if self._sending.unique is None else self._sending.unique
        if not rule:
            return None
        if not alone:
            if self._sending.unique:
                raise InvalidInput(
                    f"{self.spec.name}: others wait for this step, so it cannot be unique"
                )
            return None
        text = _fingerprint(bound) if rule is True else self._text("unique", rule, bound)
        return None if text is None else f"{self.spec.name}:{text}"

    def _text(self, what: str, rule: Rule, bound: inspect.BoundArguments) -> str | None:
        """What a rule makes of the arguments. An error of the rule refuses the send: nothing runs unguarded."""
        try:
            if isinstance(rule, str):
                bound.apply_defaults()
                text: Any = rule.format(**bound.arguments)
            else:
                text = rule(*bound.args, **bound.kwargs)
        except MillgateError:
            raise
        except Exception as error:
            if isinstance(rule, str) and isinstance(error, KeyError):
                raise InvalidInput(
                    f"{self.spec.name}: {what} {rule!r} names {error.args[0]!r}, which is not among the arguments"
                ) from None
            raise InvalidInput(f"{self.spec.name}: {what} cannot be computed: {error!r}") from error
        if text is None or (
            isinstance(text, str) and 0 < len(text.encode(errors="replace")) <= MAX_KEY
        ):
            return text
        raise InvalidInput(
            f"{self.spec.name}: {what} must be a text of 1 to {MAX_KEY} bytes, not {codec.cut(repr(text))}"
        )


def _seen(parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """Those that callers give. The worker fills in the others by name, so what stands behind one has to be named."""
    filled = False
    for parameter in parameters:
        if isinstance(parameter.default, Dependency):
            filled = True
        elif not filled or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            yield parameter.replace(annotation=parameter.empty)
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            yield parameter.replace(annotation=parameter.empty, kind=parameter.KEYWORD_ONLY)


def _positional(signature: inspect.Signature) -> range:
    """How many positional arguments are enough by themselves; empty when some must be named."""
    least = most = 0
    for parameter in signature.parameters.values():
        required = parameter.default is parameter.empty
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            least += required
            most += 1
        elif parameter.kind is parameter.KEYWORD_ONLY and required:
            return range(0)
    return range(least, most + 1)


def _fingerprint(bound: inspect.BoundArguments) -> str:
    """Equal for calls with equal arguments, however they were written."""
    import hashlib

    bound.apply_defaults()
    data = codec.canonical(dict(bound.arguments), "arguments")
    return hashlib.sha256(data).hexdigest()[:32]
