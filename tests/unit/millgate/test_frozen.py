from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import pytest

from millgate.frozen import complete, dataclass, quick


@dataclasses.dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Light:
    name: str
    count: int = 1
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heavier(Light):
    weight: float = 0.0
    secret: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Nothing:
    """Without a field."""


BOTH = pytest.mark.parametrize("kind", [Quick, Light])


@BOTH
def test_it_is_built_as_the_dataclass_would_be(kind: Any) -> None:
    given: tuple[dict[str, Any], ...] = (
        {},
        {"count": 3},
        {"count": 0, "notes": {"a": "b"}},
        {"notes": {}},
    )
    for arguments in given:
        plain, made = Plain("x", **arguments), kind("x", **arguments)
        assert dataclasses.asdict(made) == dataclasses.asdict(plain)
        assert repr(made) == repr(plain).replace("Plain", kind.__name__)
        assert type(made) is kind
    assert kind("x", 1) == kind("x")
    assert hash(kind("x", 1, ())) == hash(kind("x", 1, ()))


@BOTH
def test_each_one_has_a_default_of_its_own(kind: Any) -> None:
    assert kind("x").notes is not kind("y").notes


@BOTH
def test_it_stays_frozen_and_slotted(kind: Any) -> None:
    made = kind("x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "y"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.name
    assert not hasattr(made, "__dict__")


@BOTH
def test_what_takes_dataclasses_apart_takes_these(kind: Any) -> None:
    made = kind("x", 2, {"a": "b"})
    assert dataclasses.replace(made, count=3) == kind("x", 3, {"a": "b"})
    assert copy.copy(made) == copy.deepcopy(made) == made
    match made:
        case kind(name, count):
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


@BOTH
def test_wrong_arguments_are_refused_as_ever(kind: Any) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        kind()
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        kind("x", other=1)
    kind("x")  # its __init__ is made now at the latest
    assert list(inspect.signature(kind).parameters) == ["name", "count", "notes"]


def test_they_are_equal_to_their_own_kind_only() -> None:
    assert Light("x") != Quick("x")  # type: ignore[comparison-overlap]
    assert Light("x") != Heavier("x")
    assert Heavier("x", secret="a") == Heavier("x", secret="b")
    assert Heavier("x", weight=1.0) != Heavier("x")
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    assert {Light("x", 1, ()), Light("x", 1, ())} == {Light("x", 1, ())}  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unhashable"):
        hash(Light("x"))


def test_what_is_not_to_be_shown_is_not() -> None:
    shown = repr(Heavier("x", 2, {}, 0.5, "hidden"))
    assert shown == "Heavier(name='x', count=2, notes={}, weight=0.5)"
    assert repr(Nothing()) == "Nothing()"


def test_a_class_with_a_base_is_filled_frozen_and_copied_whole() -> None:
    made = Heavier("x", 2, {"a": "b"}, 0.5, "hidden")
    assert dataclasses.astuple(made) == ("x", 2, {"a": "b"}, 0.5, "hidden")
    assert not hasattr(made, "__dict__")
    for name in ("name", "weight", "other"):
        with pytest.raises(
            dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"
        ):
            setattr(made, name, 1)
    for twin in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert (twin, twin.secret) == (made, "hidden")
    assert dataclasses.replace(made, secret="").secret == ""


class Loose(Light):
    """A subclass of a user's, with attributes of its own."""


def test_a_subclass_may_keep_more_and_its_fields_stay_frozen() -> None:
    made = Loose("x")
    made.other = 1  # type: ignore[attr-defined]
    del made.other  # type: ignore[attr-defined]
    assert not hasattr(made, "other")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "y"  # type: ignore[misc]


def test_other_kinds_of_dataclasses_are_made_as_ever() -> None:
    @dataclass(slots=True)
    class Changing:
        count: int = 0

    made = Changing()
    made.count = 3
    assert made == Changing(3)


def test_what_was_put_off_can_be_made_at_once() -> None:
    @quick
    @dataclass(frozen=True, slots=True)
    class Late:
        count: int = 0

    before = Late.__init__
    complete()
    assert Late.__init__ is not before
    assert (Late().count, Late(3).count) == (0, 3)
