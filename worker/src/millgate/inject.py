"""Dependencies of a task: parameters that the worker fills in, for one run or for the life of a child.

A parameter whose default is `Depends(provider)` is given what the provider answers. A provider may have
dependencies of its own, and may be a generator: what follows its `yield` runs when the scope ends.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Mapping, Sequence

from millgate.errors import InvalidInput
from millgate.hints import Any, Final

_GENERATOR: Final = 0x20
_COROUTINE: Final = 0x80
_ASYNC_GENERATOR: Final = 0x200


class Dependency:
    """How one parameter is filled in; the default value of that parameter."""

    __slots__ = ("provider", "scope")

    def __init__(self, provider: Callable[..., Any], scope: str) -> None:
        self.provider = provider
        self.scope = scope

    def __repr__(self) -> str:
        return f"Depends({getattr(self.provider, '__qualname__', self.provider)})"


def Depends(provider: Callable[..., Any], *, scope: str = "task") -> Any:  # noqa: N802 -- reads as a declaration
    """Marks a parameter that the worker fills in with what `provider` answers: `db: Database = Depends(connect)`.

    `scope`: "task" makes one for each run, "child" one for each child process. Raises InvalidInput.
    """
    if scope not in ("task", "child"):
        raise InvalidInput(f"scope {scope!r}: use 'task' or 'child'")
    if not callable(provider):
        raise InvalidInput(f"Depends takes a function that makes the value, not {provider!r}")
    return Dependency(provider, scope)


def flags(function: Any) -> int:
    """Code flags of a function under its wrappers; 0 for what has no code."""
    while hasattr(function, "__wrapped__") and not hasattr(function, "__code__"):
        function = function.__wrapped__
    return int(getattr(getattr(function, "__code__", None), "co_flags", 0))


def is_async(function: Any) -> bool:
    """Whether calling it makes a coroutine."""
    return bool(flags(function) & _COROUTINE)


def is_generator(function: Any) -> bool:
    """Whether calling it makes a generator, as far as can be seen: a callable object may hide what it does."""
    hidden = callable(function) and not hasattr(function, "__code__")
    return hidden or bool(flags(function) & _GENERATOR)


def required(function: Any) -> list[str]:
    """The parameters that a call cannot leave out, in order."""
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return []
    positional = code.co_varnames[: code.co_argcount - len(function.__defaults__ or ())]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return [*positional, *(name for name in named if name not in (function.__kwdefaults__ or {}))]


def dependencies(function: Any) -> dict[str, Dependency]:
    """The parameters that are filled in, in order, and how. Raises InvalidInput where one is marked but has no default:
    to a type checker, callers would have to give it."""
    function = getattr(function, "__wrapped__", function)
    code, defaults = getattr(function, "__code__", None), getattr(function, "__defaults__", None)
    found: dict[str, Dependency] = {}
    if code is not None and defaults:
        last = code.co_varnames[: code.co_argcount][-len(defaults) :]
        found.update(zip(last, defaults, strict=True))
    found.update(getattr(function, "__kwdefaults__", None) or {})
    found = {name: value for name, value in found.items() if isinstance(value, Dependency)}
    for name in _marked(function):
        if name not in found:
            raise InvalidInput(f"{name}: give Depends(…) as its default: {name}: … = Depends(…)")
    return found


def _marked(function: Any) -> list[str]:
    """The parameters whose annotation is Annotated[…, Depends(…)], also as a text."""
    try:
        hints = getattr(function, "__annotations__", None) or {}
    except NameError:  # from Python 3.14 on: a name that only type checkers know
        return []
    return [
        name
        for name, hint in hints.items()
        if any(isinstance(mark, Dependency) for mark in getattr(hint, "__metadata__", ()))
        or (isinstance(hint, str) and "Annotated[" in hint and "Depends(" in hint)
    ]


class Scope:
    """Values made for one run or one child, each once; ended in reverse order."""

    __slots__ = ("_lock", "_made", "_open", "_overrides", "_parent")

    def __init__(
        self, overrides: Mapping[Any, Callable[..., Any]], parent: Scope | None = None
    ) -> None:
        """`overrides` replaces providers, for tests; `parent` is the child's scope, for that of a run."""
        self._overrides = overrides
        self._parent = parent
        self._made: dict[Any, Any] = {}
        self._open: list[Any] = []
        self._lock = RLock()  # several runs of one child may ask its scope at once

    def fill(self, wanted: Mapping[str, Dependency], given: dict[str, Any]) -> None:
        """Add what is wanted and not given."""
        for name, depends in wanted.items():
            if name not in given:
                given[name] = self._home(depends).make(depends.provider)

    async def fill_async(self, wanted: Mapping[str, Dependency], given: dict[str, Any]) -> None:
        """As `fill`; providers may be coroutines and asynchronous generators."""
        for name, depends in wanted.items():
            if name not in given:
                given[name] = await self._home(depends).make_async(depends.provider)

    def call(
        self,
        function: Callable[..., Any],
        wanted: Mapping[str, Dependency],
        args: Sequence[Any],
        given: dict[str, Any],
    ) -> Any:
        """What `function` answers to `args` and `given`, to which what is wanted is added; the scope ends with it."""
        try:
            self.fill(wanted, given)
            value = function(*args, **given)
        except BaseException as error:
            self.close(error)
            raise
        self.close()
        return value

    async def call_async(
        self,
        function: Callable[..., Any],
        wanted: Mapping[str, Dependency],
        args: Sequence[Any],
        given: dict[str, Any],
    ) -> Any:
        """As `call`, of a coroutine function."""
        try:
            await self.fill_async(wanted, given)
            value = await function(*args, **given)
        except BaseException as error:
            await self.close_async(error)
            raise
        await self.close_async()
        return value

    def make(self, provider: Callable[..., Any]) -> Any:
        """The value of a provider in this scope. Raises InvalidInput for an asynchronous one."""
        provider = self._overrides.get(provider, provider)
        with self._lock:
            if provider in self._made:
                return self._made[provider]
            if flags(provider) & (_COROUTINE | _ASYNC_GENERATOR):
                name = getattr(provider, "__qualname__", provider)
                raise InvalidInput(f"{name} is async, so only an async task can depend on it")
            arguments: dict[str, Any] = {}
            self.fill(dependencies(provider), arguments)
            value = provider(**arguments)
            if flags(provider) & _GENERATOR:
                value = self._begin(value, next(value))
            self._made[provider] = value
            return value

    async def make_async(self, provider: Callable[..., Any]) -> Any:
        """As `make`, for any provider."""
        provider = self._overrides.get(provider, provider)
        if not flags(provider) & (_COROUTINE | _ASYNC_GENERATOR) and not _asks_async(provider):
            return self.make(provider)
        if provider not in self._made:
            if self._parent is not None:  # a run asks for one thing at a time, in its own task
                self._made[provider] = await self._build(provider)
                return self._made[provider]
            import asyncio

            self._made[provider] = asyncio.ensure_future(self._build(provider))
        made = self._made[provider]
        if self._parent is not None:
            return made
        return await self._shared(provider, made)

    async def _shared(self, provider: Callable[..., Any], future: Any) -> Any:
        """Runs of one child wait for the same future; a failed one is forgotten, so that the next run tries again."""
        import asyncio

        try:
            return await asyncio.shield(future)
        except BaseException:
            if future.done() and self._made.get(provider) is future:
                del self._made[provider]
            raise

    async def _build(self, provider: Callable[..., Any]) -> Any:
        arguments: dict[str, Any] = {}
        await self.fill_async(dependencies(provider), arguments)
        kind = flags(provider)
        value = provider(**arguments)
        if kind & _ASYNC_GENERATOR:
            return self._begin(value, await anext(value))
        if kind & _GENERATOR:
            return self._begin(value, next(value))
        return await value if kind & _COROUTINE else value

    @property
    def is_async(self) -> bool:
        """Whether something was begun that only a loop can end."""
        return any(hasattr(began, "__anext__") for began in self._open)

    def close(self, error: BaseException | None = None) -> None:
        """End what was begun, the last first. `error` is raised at each `yield`, as in a `with` block.

        What an end raises is raised here after all have ended, unless there was an error before.
        """
        problem = error
        while self._open:
            try:
                _end(self._open.pop(), error)
            except BaseException as trouble:  # noqa: BLE001 -- the others must be ended too, at a timeout as well
                problem = trouble if problem is None else problem
        try:
            if problem is not error and problem is not None:
                raise problem
        finally:
            del problem, error  # its traceback leads here: what it holds would outlive it

    async def close_async(self, error: BaseException | None = None) -> None:
        """As `close`, for what `fill_async` began."""
        problem = error
        while self._open:
            began = self._open.pop()
            try:
                if hasattr(began, "__anext__"):
                    await _end_async(began, error)
                else:
                    _end(began, error)
            except BaseException as trouble:  # noqa: BLE001 -- as above
                problem = trouble if problem is None else problem
        try:
            if problem is not error and problem is not None:
                raise problem
        finally:
            del problem, error  # as above

    def _home(self, depends: Dependency) -> Scope:
        return self._parent if depends.scope == "child" and self._parent is not None else self

    def _begin(self, generator: Any, value: Any) -> Any:
        self._open.append(generator)
        return value


class Override:
    """A replaced provider, as a context manager."""

    __slots__ = ("_before", "_overrides", "_provider", "_replacement")

    def __init__(
        self,
        overrides: dict[Callable[..., Any], Callable[..., Any]],
        provider: Callable[..., Any],
        replacement: Callable[..., Any],
    ) -> None:
        self._overrides = overrides
        self._provider = provider
        self._replacement = replacement
        self._before: Callable[..., Any] | None = None

    def __enter__(self) -> None:
        self._before = self._overrides.get(self._provider)
        self._overrides[self._provider] = self._replacement

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            del self._overrides[self._provider]
        else:
            self._overrides[self._provider] = self._before


def _asks_async(provider: Callable[..., Any]) -> bool:
    """Whether something asynchronous is among what the provider depends on."""
    return any(
        flags(depends.provider) & (_COROUTINE | _ASYNC_GENERATOR) or _asks_async(depends.provider)
        for depends in dependencies(provider).values()
    )


def _end(generator: Any, error: BaseException | None) -> None:
    try:
        if error is None:
            next(generator)
        else:
            generator.throw(error)
    except StopIteration:
        return
    except BaseException as raised:
        if raised is error:
            return
        raise
    finally:
        del error
    generator.close()
    raise InvalidInput("a provider yields once; what it yielded second was dropped")


async def _end_async(generator: Any, error: BaseException | None) -> None:
    try:
        if error is None:
            await anext(generator)
        else:
            await generator.athrow(error)
    except StopAsyncIteration:
        return
    except BaseException as raised:
        if raised is error:
            return
        raise
    finally:
        del error
    await generator.aclose()
    raise InvalidInput("a provider yields once; what it yielded second was dropped")
