"""A wall clock that a test can step, for real processes: a small library that they load before libc."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from support.programs import need

_SOURCE = Path(__file__).with_suffix(".c")


class Steppable:
    """The clock of all programs that are started with `environ`, and of those that they start."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self._library = library
        file.write_bytes(struct.pack("q", 0))

    @staticmethod
    def build(folder: Path) -> Path:
        """Compile the library into a folder and answer its path."""
        compiler = need("gcc", [], ["gcc", "libc6-dev"])
        library = folder / "steppable.so"
        flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library)
        subprocess.run([compiler, *flags, _SOURCE, "-ldl"], check=True)
        return library

    @property
    def environ(self) -> dict[str, str]:
        """Variables that make a program use this clock."""
        return {"LD_PRELOAD": str(self._library), "STEPPABLE_OFFSET": str(self._file)}

    def step(self, seconds: int) -> None:
        """Set the clock this far from the machine's, for everybody at once."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", seconds))
