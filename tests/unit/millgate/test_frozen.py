from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from millgate.frozen import quick


@dataclass(frozen=True, slots=True)
class Plain:
    name: str
    count: int = 1
    notes: Mapping[str, str] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    count: int = 1
    notes: Mapping[str, str] = field(default_factory=dict)


def test_it_is_built_as_the_dataclass_would_be() -> None:
    given: tuple[dict[str, Any], ...] = (
        {},
        {"count": 3},
        {"count": 0, "notes": {"a": "b"}},
        {"notes": {}},
    )
    for arguments in given:
        plain, made = Plain("x", **arguments), Quick("x", **arguments)
        assert dataclasses.asdict(made) == dataclasses.asdict(plain)
        assert repr(made) == repr(plain).replace("Plain", "Quick")
        assert type(made) is Quick
    assert Quick("x", 1) == Quick("x")
    assert hash(Quick("x", 1, ())) == hash(Quick("x", 1, ()))  # type: ignore[arg-type]


def test_each_one_has_a_default_of_its_own() -> None:
    assert Quick("x").notes is not Quick("y").notes


def test_it_stays_frozen_and_slotted() -> None:
    made = Quick("x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "y"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.name
    assert not hasattr(made, "__dict__")


def test_what_takes_dataclasses_apart_takes_these() -> None:
    made = Quick("x", 2, {"a": "b"})
    assert dataclasses.replace(made, count=3) == Quick("x", 3, {"a": "b"})
    assert copy.copy(made) == copy.deepcopy(made) == made
    match made:
        case Quick(name, count):
            assert (name, count) == ("x", 2)


class Longer(Quick):
    __slots__ = ("rest",)
    rest: int


def test_a_subclass_may_have_more_slots() -> None:
    made = Longer("x", notes={"a": "b"})
    object.__setattr__(made, "rest", 3)
    assert (type(made), made.name, made.count, made.notes, made.rest) == (
        Longer,
        "x",
        1,
        {"a": "b"},
        3,
    )
    assert Longer("x").notes == {}
    assert Longer("x").notes is not Longer("y").notes


def test_wrong_arguments_are_refused_as_ever() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        Quick("x", other=1)  # type: ignore[call-arg]
    assert list(inspect.signature(Quick).parameters) == ["name", "count", "notes"]
