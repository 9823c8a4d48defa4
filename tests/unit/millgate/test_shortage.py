"""What is said of a limit of the system."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from millgate.shortage import of_files, of_processes


@pytest.mark.parametrize(
    ("number", "word"), [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "file-max")]
)
def test_too_many_open_files(number: int, word: str) -> None:
    assert word in str(of_files(OSError(number, "x")))
    assert word in str(of_processes(OSError(number, "x")))


def test_other_errors_have_nothing_to_do_with_it() -> None:
    assert of_files(OSError(errno.ECONNREFUSED, "x")) is None
    assert of_files(OSError("without a number")) is None
    assert of_processes(OSError(errno.EACCES, "x")) is None


def test_a_name_that_is_not_found_may_be_for_want_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    error = socket.gaierror(-3, "Temporary failure in name resolution")
    assert of_files(error) is None

    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, "x")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", full)
        assert "ulimit -n" in str(of_files(error))
