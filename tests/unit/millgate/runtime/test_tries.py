"""When another child is started after some that came to nothing, and when no other is."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from millgate.errors import EXIT_APP, EXIT_LIMITS
from millgate.runtime.tries import Tries
from support.clock import FakeClock


class Scene:
    """Tries, what they say in the log, and whether they give up."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.said: list[dict[str, Any]] = []
        self.given_up: list[tuple[int, str]] = []
        journal: Any = self
        self.tries = Tries(
            lambda code, problem: self.given_up.append((code, problem)),
            journal=journal,
            clock=self.clock,
        )

    def say(self, *_: Any, **words: Any) -> None:
        self.said.append(words)


def test_each_failure_in_a_row_lets_the_next_start_wait_longer() -> None:
    scene = Scene()
    assert scene.tries.due(scene.clock.monotonic())
    waits = [scene.tries.postpone() for _ in range(3)]
    assert waits == sorted(set(waits))
    now = scene.clock.monotonic()
    assert not scene.tries.due(now + waits[-1] - 0.01)
    assert scene.tries.due(now + waits[-1])


def test_a_child_that_is_ready_lets_the_next_failure_wait_as_the_first() -> None:
    scene = Scene()
    first, _ = scene.tries.postpone(), scene.tries.postpone()
    scene.tries.succeeded()
    assert scene.tries.postpone() == first


def test_an_app_that_no_child_gets_to_load_is_given_up_after_some_tries() -> None:
    scene = Scene()
    for _ in range(5):
        scene.tries.ended("it ended")
    assert scene.given_up == []
    scene.tries.ended("it ended")
    [(code, problem)] = scene.given_up
    assert (code, problem) == (EXIT_APP, "no child gets as far as a task, 6 tries: it ended")
    assert [words["problem"] for words in scene.said] == ["it ended"] * 6


def test_an_app_that_was_there_once_is_never_given_up() -> None:
    scene = Scene()
    scene.tries.succeeded()
    for _ in range(9):
        scene.tries.ended("it ended")
        scene.tries.not_loaded("a syntax error")
    assert scene.given_up == []


def test_an_app_that_cannot_be_imported_at_start_is_the_end() -> None:
    scene = Scene()
    scene.tries.not_loaded("no module named app")
    assert scene.given_up == [(EXIT_APP, "no module named app")]
    assert scene.said == []


def refused(scene: Scene, *, alone: bool = True, times: int = 6) -> None:
    for _ in range(times):
        scene.tries.refused(BlockingIOError(errno.EAGAIN, "no"), alone=alone)


def test_a_machine_that_gives_no_process_at_all_is_given_up_after_some_tries() -> None:
    scene = Scene()
    refused(scene, times=5)
    assert scene.given_up == []
    refused(scene, times=1)
    [(code, problem)] = scene.given_up
    assert code == EXIT_LIMITS
    assert problem.startswith("cannot start a child: there may be no more processes")
    assert problem.endswith("(6 tries)")
    waits = [words["next_try_in"] for words in scene.said]
    assert waits == sorted(set(waits))


def test_a_child_that_is_there_or_was_keeps_the_worker_however_often_no_other_can_start() -> None:
    scene = Scene()
    refused(scene, alone=False, times=20)  # it begins still
    scene.tries.succeeded()
    refused(scene, times=20)
    assert scene.given_up == []


@pytest.mark.parametrize(
    ("number", "word"),
    [(errno.EMFILE, "ulimit -n"), (errno.ENOMEM, "--children"), (errno.EACCES, "denied")],
)
def test_it_is_said_what_there_is_too_little_of(number: int, word: str) -> None:
    scene = Scene()
    scene.tries.refused(OSError(number, os.strerror(number).lower()), alone=True)
    assert word in scene.said[0]["problem"]
