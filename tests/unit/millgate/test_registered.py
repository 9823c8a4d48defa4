"""Classes of the user travel by name, and only those that were registered here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from millgate import codec, registered
from millgate.errors import InvalidInput, NotDecodable, NotEncodable


class Plain:
    """Nothing is known of it."""


@registered.register
@dataclass(frozen=True)
class Order:
    number: int
    lines: tuple[str, ...] = ()


@registered.register
class Colour(Enum):
    RED = "red"


@registered.register
class Level(IntEnum):
    LOW = 1


@registered.register
class Word(StrEnum):
    YES = "yes"


@registered.register
class Rights(Flag):
    READ = 1
    WRITE = 2


@registered.register
class Customer(BaseModel):
    id: UUID
    since: datetime
    debt: Decimal
    photo: bytes = b""


class Struct:
    """Made as msgspec makes its structs."""

    __struct_fields__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and (self.a, self.b) == (other.a, other.b)

    def __hash__(self) -> int:
        return hash((self.a, self.b))


registered.register(Struct)


@pytest.mark.parametrize(
    "value",
    [
        Order(7, ("a", "b")),
        Colour.RED,
        Level.LOW,
        Word.YES,
        Rights.READ | Rights.WRITE,
        Customer(id=uuid4(), since=datetime(2026, 1, 1, tzinfo=UTC), debt=Decimal("0.10")),
        Struct(date(2026, 1, 1), [Order(1)]),
        {Order(1): [Order(2)]},
    ],
)
def test_registered_classes_come_back(value: Any) -> None:
    again = codec.decode(codec.encode(value))
    assert again == value
    assert type(again) is type(value)


def test_a_class_with_hooks_of_its_own_travels() -> None:
    class Money:
        def __init__(self, cents: int) -> None:
            self.cents = cents

    registered.register(Money, name="money", encode=lambda money: money.cents, decode=Money)
    assert codec.encode(Money(5)) == b'{"$mg:as":["money",5]}'
    assert codec.decode(b'{"$mg:as":["money",5]}').cents == 5


def test_a_hook_that_raises_is_the_callers_error() -> None:
    class Bad:
        pass

    registered.register(Bad, name="bad", encode=lambda _: 1 / 0, decode=lambda _: 1 / 0)
    with pytest.raises(NotEncodable, match=r"args\[0\]: bad does not encode: division by zero"):
        codec.encode_call((Bad(),), {})
    with pytest.raises(NotDecodable, match="division by zero"):
        codec.decode(b'{"$mg:as":["bad",5]}')


def test_an_unregistered_dataclass_or_enum_is_told_how() -> None:
    @dataclass
    class Unregistered:
        x: int

    with pytest.raises(NotEncodable, match=r"@millgate\.register above the class"):
        codec.encode(Unregistered(1))


def test_a_class_that_offers_nothing_is_not_registered() -> None:
    with pytest.raises(InvalidInput, match="give encode and decode"):
        registered.register(Plain)
    with pytest.raises(InvalidInput, match="together"):
        registered.register(Plain, encode=str)


def test_a_name_belongs_to_one_class() -> None:
    class Other:
        x: int

    registered.register(Plain, name="mine", encode=lambda _: None, decode=lambda _: Plain())
    registered.register(Plain, name="mine", encode=lambda _: None, decode=lambda _: Plain())
    try:
        with pytest.raises(InvalidInput, match="another class"):
            registered.register(Other, name="mine", encode=lambda _: None, decode=lambda _: Other())
    finally:
        registered.by_class.pop(Plain)
        registered.by_name.pop("mine")
