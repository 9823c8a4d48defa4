"""Runs programs and turns a failure into an error that shows what was run and what it said."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TAIL = 4000  # characters of output kept in an error


class CommandFailed(Exception):
    """A program ended with an error, or took longer than it may."""

    def __init__(self, argv: Sequence[str], code: int | None, stdout: str, stderr: str) -> None:
        self.argv, self.code, self.stdout, self.stderr = tuple(argv), code, stdout, stderr
        ended = "ran out of time" if code is None else f"ended with code {code}"
        said = (stderr.strip() + "\n" + stdout.strip()).strip()[-TAIL:]
        super().__init__(f"{' '.join(argv)}\n{ended}:\n{said}")


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = 120,
) -> str:
    """Run a program to its end and return its standard output; raise CommandFailed otherwise."""
    __tracebackhide__ = True  # a failed test need not print the environment
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            env=env,
            cwd=cwd,
            timeout=timeout,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise CommandFailed(words, None, _text(late.stdout), _text(late.stderr)) from None
    except FileNotFoundError as missing:
        raise CommandFailed(
            words, 127, "", f"{missing.filename}: no such program or folder"
        ) from None
    if done.returncode != 0:
        raise CommandFailed(words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def _text(output: bytes | str | None) -> str:
    if output is None:
        return ""
    return output if isinstance(output, str) else output.decode(errors="replace")
