"""Frozen dataclasses that cost little to define and to build.

`dataclasses` compiles six methods for each class, a millisecond where processors are slow, and a child defines thirty
classes before its first task. Here five of them are closures, and `__init__` is compiled when the first value is made.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter

from millgate.hints import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")
#: Classes without a value so far, and what makes their `__init__`.
_put_off: dict[type, Callable[[type], Any]] = {}

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(*, frozen=False, slots=False, **options):
        """As `dataclasses.dataclass`. Frozen ones with slots behave as its own do, but for `inspect.signature`."""
        if frozen and slots and not options:
            return _frozen
        return dataclasses.dataclass(frozen=frozen, slots=slots, **options)


def _frozen(cls: type[T]) -> type[T]:
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    _compare(made)
    _freeze(made)
    made.__init__ = _postponed(made, _filling)  # type: ignore[method-assign]
    return made


def quick(cls: type[T]) -> type[T]:
    """For a `@dataclass(frozen=True, slots=True)` of which a task needs several: the same class, made in a third of
    the time. Subclasses are filled as ever. Not for classes with bases or `__post_init__`.

    A frozen dataclass fills itself by one call of `object.__setattr__` for each field. Here the new object is of a
    twin class with the same slots while it is filled, which may assign; nobody else has seen it by then.
    """
    cls.__init__ = _postponed(cls, _assigning)  # type: ignore[method-assign]
    return cls


# --- what all have in common ---------------------------------------------------------------------


def _compare(cls: type) -> None:
    known = dataclasses.fields(cls)
    of = _values([field.name for field in known if field.compare])
    shown = [field.name for field in known if field.repr]

    def equal(self: object, other: object) -> bool:
        return of(self) == of(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(of(self))

    def shown_as(self: object) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({parts})"

    _add(cls, __eq__=equal, __hash__=hashed, __repr__=shown_as)


def _values(names: list[str]) -> Callable[[object], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _freeze(cls: type) -> None:
    names = tuple(field.name for field in dataclasses.fields(cls))
    assign, remove = object.__setattr__, object.__delattr__

    def refuse_change(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        assign(self, name, value)

    def refuse_removal(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        remove(self, name)

    def state_of(self: object) -> list[Any]:
        return [getattr(self, name) for name in names]

    def restore(self: object, state: list[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            assign(self, name, value)

    _add(cls, __setattr__=refuse_change, __delattr__=refuse_removal)
    _add(cls, __getstate__=state_of, __setstate__=restore)


def _add(cls: type, **methods: Any) -> None:
    for name, method in methods.items():
        if (
            name not in cls.__dict__ or cls.__dict__[name] is None
        ):  # `__eq__` alone would unset `__hash__`
            method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, method)


# --- making __init__ -----------------------------------------------------------------------------


def complete() -> None:
    """Make what was put off for first values, here and now: who forks does it once for all its children."""
    while _put_off:
        cls, build = _put_off.popitem()
        cls.__init__ = build(cls)  # type: ignore[misc]


def _postponed(cls: type, build: Callable[[type], Any]) -> Any:
    def fill(self: object, *values: Any, **named: Any) -> None:
        _put_off.pop(cls, None)
        made = build(cls)
        cls.__init__ = made  # type: ignore[misc]
        made(self, *values, **named)

    _put_off[cls] = build
    return fill


def _filling(cls: type) -> Any:
    """One that passes by the lock."""
    names: dict[str, Any] = {"_fill": object.__setattr__}
    known = dataclasses.fields(cls)
    return _made(cls, [f" _fill(self, {field.name!r}, {_value(field)})" for field in known], names)


def _assigning(cls: type) -> Any:
    """One that fills a twin."""
    known = dataclasses.fields(cls)
    twin = type(cls.__name__, (), {"__slots__": tuple(field.name for field in known)})
    names: dict[str, Any] = {"_become": object.__setattr__, "_twin": twin, "_cls": cls}
    names["_slow"] = _filling(cls)
    lines = [" if type(self) is not _cls:"]  # it has slots that the twin lacks
    lines.append(f"  return _slow(self, {', '.join(_value(field) for field in known)})")
    lines.append(" _become(self, '__class__', _twin)")
    lines += [f" self.{field.name} = {_value(field)}" for field in known]
    lines.append(" self.__class__ = _cls")
    return _made(cls, lines, names)


def _made(cls: type, lines: list[str], names: dict[str, Any]) -> Any:
    known = dataclasses.fields(cls)
    head = f"def __init__(self, {', '.join(_parameter(field, names) for field in known)}):"
    exec("\n".join([head, *lines, " return None"]), names)  # noqa: S102 -- as dataclasses do: only names of fields are in it
    made = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _parameter(field: Field[Any], names: dict[str, Any]) -> str:
    if field.default_factory is not MISSING:
        names[f"_make_{field.name}"] = field.default_factory
        return f"{field.name}=_make_{field.name}"
    if field.default is MISSING:
        return field.name
    names[f"_default_{field.name}"] = field.default
    return f"{field.name}=_default_{field.name}"


def _value(field: Field[Any]) -> str:
    if field.default_factory is MISSING:
        return field.name
    made = f"_make_{field.name}"
    return f"{made}() if {field.name} is {made} else {field.name}"


__all__ = ["complete", "dataclass", "quick"]
