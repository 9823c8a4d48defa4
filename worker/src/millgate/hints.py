"""The names of `typing` for what a child imports: to a type checker the real ones, to Python stand-ins without weight.

`typing` and what it brings are half a megabyte of every child whose tasks do not use it. Annotations are never
evaluated here, so most of the names only have to be there.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import (
        Any,
        Final,
        Generic,
        ParamSpec,
        Protocol,
        Self,
        TypedDict,
        TypeVar,
        Unpack,
        overload,
    )
else:
    Any = Final = Self = Unpack = object

    class Protocol:
        """A base without meaning."""

        __slots__ = ()

    class Generic:
        """A base that can be subscripted, as can what is below it."""

        __slots__ = ()
        __class_getitem__ = classmethod(type(list[int]))

    class TypedDict(dict):
        """A dictionary; its fields are the annotations of what is below it."""

        def __init_subclass__(cls, *, total: bool = True) -> None:
            cls.__total__ = total

    class TypeVar:
        """Stands between the brackets of a class."""

        def __init__(self, name: str, *, bound: object = None) -> None:
            self.__name__ = name
            self.__bound__ = bound

    ParamSpec = TypeVar

    def overload(function):
        """Answer what is overwritten anyway."""
        return function


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "Final",
    "Generic",
    "ParamSpec",
    "Protocol",
    "Self",
    "TypeVar",
    "TypedDict",
    "Unpack",
    "overload",
]
