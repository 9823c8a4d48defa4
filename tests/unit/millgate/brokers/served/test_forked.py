"""A forked copy writes the state of the moment at which it was made, and says whether it could."""

from __future__ import annotations

from pathlib import Path

from millgate.brokers.served.forked import fork
from support.wait import eventually


def test_the_copy_writes_the_state_of_its_moment(tmp_path: Path) -> None:
    state, path = ["then"], tmp_path / "state"
    writer = fork(lambda: path.write_text(state[0]))
    state[0] = "later"
    eventually(lambda: not writer.running())
    assert writer.end() == len("then")
    assert path.read_text() == "then"


def test_a_copy_that_cannot_write_says_so(tmp_path: Path) -> None:
    writer = fork(lambda: (tmp_path / "none" / "state").write_text("x"))
    assert writer.end() is None
