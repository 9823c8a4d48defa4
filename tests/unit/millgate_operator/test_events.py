"""Events fit into what the API server takes."""

from __future__ import annotations

from millgate_operator.events import Recorder
from support.clock import FakeClock
from support.manifests import a_task_queue
from support.shelf import Shelf


def test_a_note_in_any_language_fits() -> None:
    shelf = Shelf()
    about = shelf.put(a_task_queue())
    Recorder(shelf, FakeClock(), "me").post(about, "Unreachable", "пароль " * 200, warning=True)
    [event] = shelf.there("Event")
    assert 900 < len(event["note"].encode()) < 1024
    assert event["note"].startswith("пароль пароль")
