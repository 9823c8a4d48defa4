"""The middleware around one run: generators that yield once, entered from the outside in and left the other way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from millgate.errors import InvalidInput
from millgate.hints import Any

#: Given the run's context; what it returns instead of yielding is the result, and the task does not run.
Layer = Callable[[Any], Generator[Any, Any, Any]]


class Onion:
    """The layers around one run: the first one is outermost."""

    __slots__ = ("_context", "_middlewares", "_open", "value")

    def __init__(self, layers: Sequence[Layer], here: Any) -> None:
        self._middlewares = layers
        self._context = here
        self._open: list[Any] = []
        self.value: Any = None  # of a middleware that returned instead of letting the task run

    def enter(self) -> bool:
        """Run what comes before; False: the task is not to run, `value` is the result."""
        for middleware in self._middlewares:
            layer = middleware(self._context)
            try:
                next(layer)
            except StopIteration as end:
                self.value = end.value
                return False
            self._open.append(layer)
        return True

    def leave(self, value: Any, error: BaseException | None) -> Any:
        """Run what comes after, from the inside out; the result, or raises the error that is left."""
        while self._open:
            layer = self._open.pop()
            try:
                if error is None:
                    layer.send(value)
                else:
                    layer.throw(error)
            except StopIteration as end:
                if error is not None or end.value is not None:
                    value, error = end.value, None
            except BaseException as raised:  # noqa: BLE001 -- the outer layers see it next
                error = _seen_through(error, raised)
            else:
                error = _ended(layer)
        try:
            if error is not None:
                raise error
        finally:
            del error  # its traceback leads here: what it holds would outlive it
        return value


def _ended(layer: Generator[Any, Any, Any]) -> BaseException:
    """What is wrong with a layer that yielded again, which is ended."""
    try:
        layer.close()
    except BaseException as raised:  # noqa: BLE001 -- the outer layers see it next
        return raised
    return InvalidInput("a middleware yields once")


def _seen_through(thrown: BaseException | None, raised: BaseException) -> BaseException:
    """What a layer let out; generators turn a StopIteration that was thrown into them into something else."""
    made = isinstance(thrown, StopIteration) and raised.__cause__ is thrown
    return thrown if made and thrown is not None else raised
