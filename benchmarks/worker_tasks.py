"""The app of `benchmarks.worker`: tasks that leave their times behind, and one that grows at a given rate."""

from __future__ import annotations

import mmap
import os
import subprocess
import time

from millgate.app import App

app = App()
MEGABYTE = 2**20
PAGE = 4096


@app.task(name="stamp")
def stamp(seconds: float) -> list[float]:
    """Who ran it, from when to when."""
    began = time.monotonic()
    time.sleep(seconds)
    return [os.getpid(), began, time.monotonic()]


@app.task(name="grow", retries=0)
def grow(path: str, rate: float) -> None:
    """Touch `rate` megabytes a second of memory that no limit on reserved memory counts, and keep count in a file."""
    with open(path, "r+b") as file:  # noqa: PTH123 -- small
        counter = memoryview(mmap.mmap(file.fileno(), PAGE)).cast("Q")
    space = mmap.mmap(-1, 4096 * MEGABYTE)
    megabyte = b"g" * MEGABYTE
    began = time.monotonic()
    for number in range(4096):
        while time.monotonic() - began < number / rate:
            pass
        space[number * MEGABYTE : (number + 1) * MEGABYTE] = megabyte
        counter[0] = number + 1


@app.task(name="parent")
def parent(count: int) -> None:
    """Have processes of its own for a while."""
    with_children = [subprocess.Popen(["sleep", "60"]) for _ in range(count)]
    time.sleep(60)
    del with_children


@app.task(name="sit")
def sit(path: str, seconds: float) -> None:
    """Say when it begins, and stay."""
    line = f"{os.getpid()} {time.monotonic()}\n".encode()
    with open(path, "ab") as file:  # noqa: PTH123 -- small
        file.write(line)
    time.sleep(seconds)
