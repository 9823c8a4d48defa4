"""When the heap is trimmed, and when it is left alone."""

from __future__ import annotations

import pytest

from millgate.runtime.trim import Trimmer

MEGABYTE = 2**20


class Scene:
    """A trimmer whose sizes are given, and whose trims are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trimmer = Trimmer()
        self.size = 20 * MEGABYTE
        self.after: int | None = None  # what a trim leaves
        self.trims = 0
        monkeypatch.setattr(self.trimmer, "_size", lambda: self.size)
        monkeypatch.setattr(self.trimmer, "_trim", self._trim)

    def _trim(self) -> None:
        self.trims += 1
        if self.after is not None:
            self.size = self.after

    def look(self, size: int) -> int:
        """How many trims there were after a look at a child of that size."""
        self.size = size * MEGABYTE
        self.trimmer.look(1.0)
        return self.trims


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    made = Scene(monkeypatch)
    made.look(20)
    return made


def test_small_growth_is_left_alone(scene: Scene) -> None:
    assert scene.look(30) == 0
    assert scene.look(36) == 0


def test_growth_is_counted_from_when_it_was_last_small(scene: Scene) -> None:
    assert scene.look(15) == 0
    assert scene.look(32) == 1


def test_what_a_trim_cannot_give_back_is_not_trimmed_again(scene: Scene) -> None:
    assert [scene.look(100) for _ in range(5)] == [1] * 5
    assert scene.look(117) == 2


def test_what_was_given_back_may_be_trimmed_again(scene: Scene) -> None:
    scene.after = 20 * MEGABYTE
    assert [scene.look(100) for _ in range(3)] == [1, 2, 3]


def test_a_look_puts_off_the_next_one(scene: Scene) -> None:
    assert scene.trimmer.due == 2.0


def test_it_is_the_real_function_that_is_called_and_it_gives_back() -> None:
    trimmer = Trimmer()
    trimmer.look(0.0)
    held = [bytes(1000 + number * 7919 % 59_000) for number in range(4000)]
    top = held[-1]
    del held
    grown = trimmer._size()
    trimmer.look(1.0)
    assert trimmer._size() < grown - 50 * MEGABYTE
    assert top
