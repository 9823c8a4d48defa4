"""Tasks for tests of the worker: good ones, slow ones, greedy ones, and such that misbehave on purpose."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millgate import App, current
from millgate.errors import Reject, Retry, SoftTimeout

app = App("memory://workload")
kept: list[Any] = []

MEGABYTE = 2**20


def note(path: str, word: str) -> None:
    """One line in a journal file: the word, the id, the attempt, the process, the time."""
    here = current()
    line = f"{word} {here.id} {here.attempt} {os.getpid()} {time.time()}\n"
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(line)


@app.task(name="add")
def add(a: int, b: int) -> int:
    return a + b


@app.task(name="add_async")
async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0.01)
    return a + b


@app.task(name="who")
def who() -> int:
    return os.getpid()


@app.task(name="work")
def work(path: str, seconds: float) -> int:
    note(path, "start")
    time.sleep(seconds)
    note(path, "end")
    return os.getpid()


@app.task(name="work_async")
async def work_async(path: str, seconds: float) -> int:
    note(path, "start")
    await asyncio.sleep(seconds)
    note(path, "end")
    return os.getpid()


@app.task(name="note_or_die")
def note_or_die(path: str, number: int, fatal: int) -> None:
    """Ends its child at one number, once; at all others it is quick."""
    note(path, f"run-{number}")
    if number == fatal and current().attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="fail")
def fail(text: str) -> None:
    raise ValueError(text)


@app.task(name="flaky", retries=3, backoff={"initial": 0.05, "max": 0.05})
def flaky(path: str, failures: int) -> int:
    note(path, "start")
    if current().attempt <= failures:
        raise RuntimeError("not yet")
    return current().attempt


@app.task(name="later")
def later(path: str) -> int:
    note(path, "start")
    if current().attempt == 1:
        raise Retry("again", after=0.05)
    return current().attempt


@app.task(name="refuse")
def refuse() -> None:
    raise Reject("pointless")


@app.task(name="overtime", soft_timeout=0.3)
def overtime(seconds: float) -> str:
    try:
        time.sleep(seconds)
    except SoftTimeout:
        return "cleaned up"
    return "slept"


@app.task(name="overtime_async", soft_timeout=0.3)
async def overtime_async(seconds: float) -> str:
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        return "cleaned up"
    return "slept"


@app.task(name="overtime_blocking", soft_timeout=0.3)
async def overtime_blocking(seconds: float) -> str:
    try:
        time.sleep(seconds)  # the mistake that it is about
    except SoftTimeout:
        await asyncio.sleep(0.05)
        return "cleaned up"
    return "slept"


@app.task(name="stubborn", timeout=0.5)
def stubborn(path: str) -> None:
    note(path, "start")
    while True:
        try:
            time.sleep(10)
        except BaseException:  # noqa: BLE001 -- it listens to nothing
            continue


@app.task(name="deaf")
def deaf(path: str, tag: str) -> None:
    """Neither it nor the program that it starts ends for a signal or a soft timeout."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # and a program inherits what is ignored
    with subprocess.Popen(["sleep", tag]):
        stubborn(path)


@app.task(name="until_cancelled")
def until_cancelled(path: str) -> str:
    note(path, "start")
    while not current().cancelled:
        time.sleep(0.02)
    note(path, "cancelled")
    return "never mind"


@app.task(name="cooperative")
def cooperative(path: str) -> str:
    note(path, "start")
    try:
        time.sleep(60)
    except SoftTimeout:
        note(path, "asked")
        raise
    return "slept"


@app.task(name="leak")
def leak(megabytes: int) -> int:
    kept.append(b"x" * (megabytes * MEGABYTE))
    time.sleep(0.02)
    return os.getpid()


@app.task(name="fragment")
def fragment(blocks: int) -> None:
    """Fill the heap with blocks of 1 to 60 kB, and keep only the topmost one."""
    held = [bytes(1000 + number * 7919 % 59_000) for number in range(blocks)]
    kept.append(held[-1])


@app.task(name="share", retries=0)
def share(megabytes: int, count: int) -> int:
    """Forks that all look at the same pages, for a while."""
    page = b"s" * (megabytes * MEGABYTE)
    forks = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            time.sleep(1.5)
            os._exit(page[-1] != ord("s"))
        forks.append(pid)
    return sum(os.waitpid(pid, 0)[1] for pid in forks)


@app.task(name="hog", retries=1, backoff={"initial": 0.01, "max": 0.01})
def hog(path: str, megabytes: int) -> None:
    note(path, "start")
    held = []
    for _ in range(megabytes):
        held.append(bytearray(b"y") * MEGABYTE)
        time.sleep(0.001)
    time.sleep(5)


def wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(0.01)


@app.task(name="swell_when_told", retries=1)
def swell_when_told(path: str, file: str) -> None:
    note(path, "start")
    wait_for(file)
    map_shared(400)


@app.task(name="crash_when_told", retries=1)
def crash_when_told(path: str, file: str) -> None:
    note(path, "start")
    wait_for(file)
    os._exit(7)


@app.task(name="gulp", retries=0)
def gulp(megabytes: int) -> int:
    return len(b"z" * (megabytes * MEGABYTE))


@app.task(name="map_shared", retries=0)
def map_shared(megabytes: int) -> None:
    import mmap

    page = mmap.mmap(-1, megabytes * MEGABYTE)
    for start in range(0, len(page), 4096):
        page[start] = 1
    time.sleep(5)


_GROWING = (
    "import time; held = []\n"
    "for _ in range({0}): held.append(bytearray(b'w') * 2**20); time.sleep(0.001)\n"
    "time.sleep(30)"
)


@app.task(name="subprocess_hog", retries=0)
def subprocess_hog(megabytes: int) -> int:
    return subprocess.run(
        [sys.executable, "-c", _GROWING.format(megabytes)], check=False
    ).returncode


@app.task(name="daemon")
def daemon(tag: str, seconds: float) -> int:
    """Leave a process behind that is in a session of its own and has no parent, then go on for a while."""
    leave_behind(tag)
    time.sleep(seconds)
    return os.getpid()


def leave_behind(tag: str) -> None:
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", tag], {})
        os._exit(0)
    os.waitpid(first, 0)


@app.task(name="daemon_hog", retries=0)
def daemon_hog(megabytes: int) -> None:
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-c", _GROWING.format(megabytes)])
        os._exit(0)
    os.waitpid(first, 0)
    time.sleep(20)


@app.task(name="spawn_sleep")
def spawn_sleep(path: str, tag: str, seconds: float) -> None:
    note(path, "start")
    with subprocess.Popen(["sleep", tag]) as process:
        leave_behind(tag)
        time.sleep(seconds)
        process.kill()


@app.task(name="spawn_sleep_quietly", retries=0)
def spawn_sleep_quietly(path: str, seconds: float) -> int:
    note(path, "start")
    return subprocess.run(["sleep", str(seconds)], check=False).returncode


@app.task(name="hold_the_interpreter")
def hold_the_interpreter(path: str, seconds: float) -> int:
    """As code in another language that never lets go: no thread of this process runs meanwhile."""
    note(path, "start")
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return current().attempt


@app.task(name="crash", retries=0)
def crash(code: int) -> None:
    os._exit(code)


@app.task(name="segfault", retries=0)
def segfault() -> None:
    ctypes.string_at(0)


@app.task(name="crash_once")
def crash_once(path: str) -> int:
    note(path, "start")
    if current().attempt == 1:
        os._exit(9)
    return current().attempt


@app.task(name="flood")
def flood(megabytes: int) -> str:
    print("first line")
    for _ in range(megabytes * 64):
        sys.stdout.write("f" * 16383 + "\n")
    print("last line")
    return "done"


@app.task(name="say")
def say(text: str) -> None:
    print(text)
    print("to stderr", text, file=sys.stderr)


async def say_late(text: str, file: str) -> None:
    await asyncio.to_thread(wait_for, file)
    print(text)
    await asyncio.to_thread(print, text, "in a thread")


@app.task(name="say_when_it_is_over")
async def say_when_it_is_over(text: str, file: str) -> None:
    kept.append(asyncio.create_task(say_late(text, file)))
    await asyncio.sleep(0)  # it begins


@app.task(name="wait_async")
async def wait_async(path: str, seconds: float) -> None:
    note(path, "start")
    await asyncio.sleep(seconds)


@app.task(name="hoard", retries=0)
def hoard() -> None:
    """Open files until there are no more to be had, and keep them."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    while True:
        kept.append(os.open(os.devnull, os.O_RDONLY))


@app.task(name="tell")
def tell(text: str) -> None:
    logger = current().logger
    logger.debug("not %s", text)
    logger.info("told %s", text)
    logger.error("oh %s", text)


@app.task(name="big")
def big(size: int) -> str:
    return "b" * size


@app.task(name="not_json")
def not_json() -> Any:
    return object()


@app.task(name="modules")
def modules() -> list[str]:
    return sorted(sys.modules)


@app.task(name="descriptors")
def descriptors() -> list[str]:
    here = Path("/proc/self/fd")
    return [os.readlink(entry) for entry in here.iterdir() if entry.is_symlink()]  # noqa: PTH115


@app.task(name="send_more")
def send_more(count: int) -> list[str]:
    return [add.send(number, number).id for number in range(count)]


@app.task(name="ask_and_wait")
def ask_and_wait() -> int:
    return int(add.send(20, 22).result(timeout=10))


@app.task(name="with_lock")
def with_lock(path: str, seconds: float) -> int:
    with current().lock("the lock", ttl=2.0, wait=10.0) as lock:
        note(path, "in")
        time.sleep(seconds)
        note(path, "out")
        return lock.fence


@app.task(name="die_with_lock", backoff="None")
def die_with_lock() -> int:
    with current().lock("the lock", ttl=600.0):
        if current().attempt == 1:
            os._exit(9)
        return current().attempt


@app.task(name="with_progress")
def with_progress() -> None:
    current().progress({"done": 1})
    time.sleep(0.5)
    current().progress({"done": 2})
    time.sleep(0.5)


# a topic of its own: a test of another one is not to see what the clock brings
@app.task(name="every_minute", topic="minutes", cron="* * * * *", misfire="Once")
def every_minute() -> str:
    return "fired"


@app.task(name="scribble", retries=0)
def scribble() -> None:
    """Write nonsense on every socket of this process: a library that lost count of its descriptors."""
    here = Path("/proc/self/fd")
    for entry in list(here.iterdir()):
        if entry.is_symlink() and os.readlink(entry).startswith("socket:"):  # noqa: PTH115
            os.write(int(entry.name), b"\xff" * 64)
    time.sleep(5)


@app.task(name="echo")
def echo(data: str) -> int:
    return len(data)


@app.task(name="kill_the_worker")
def kill_the_worker(path: str) -> None:
    """As a pod that the kernel ends as a whole: nobody is left who could report it."""
    note(path, "start")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


class Demanding(Exception):
    """Pickles, and cannot be made again from what was pickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__("demanding")
        self.first, self.second = first, second


class Exits(Exception):
    """Ends whoever pickles it or asks for its text."""

    def __reduce__(self) -> Any:
        os._exit(5)

    def __str__(self) -> str:
        raise SystemExit(6)


def _held(socket_: Any) -> Exception:
    error = RuntimeError("holds a socket")
    error.held = socket_  # type: ignore[attr-defined]
    return error


def _local() -> Exception:
    class Local(Exception):
        pass

    return Local("local")


#: What tasks raise that cannot go from process to process, or into a store, as it is.
ODD: dict[str, Callable[[], BaseException]] = {
    "demanding": lambda: Demanding("a", "b"),
    "exits": Exits,
    "local": _local,
    "socket": lambda: _held(socket.socket()),
    "huge": lambda: ValueError("h" * 50 * MEGABYTE),
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "group": lambda: BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError("v")]),
    "texts": lambda: ValueError("a\x00b \ud800 \x1b[2J\r\n" + "t" * 100_000),
}


@app.task(name="raise_odd", retries=1, backoff={"initial": 0.01, "max": 0.01})
def raise_odd(path: str, kind: str) -> None:
    note(path, kind)
    raise ODD[kind]()


@app.task(name="raise_odd_async", retries=1, backoff={"initial": 0.01, "max": 0.01})
async def raise_odd_async(path: str, kind: str) -> None:
    await asyncio.sleep(0.01)
    raise_odd(path, kind)


@app.task(name="churn")
def churn(seconds: float) -> None:
    """Processes that end as soon as they have begun, some of them as orphans."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        first = os.fork()
        if first == 0:
            if os.fork() == 0:
                os._exit(0)
            os._exit(0)
        os.waitpid(first, 0)


@app.task(name="spread", retries=0)
def spread(kind: str) -> int:
    """Work in processes as libraries start them."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if kind == "manager":
        with multiprocessing.Manager() as manager:
            return sum(manager.list([1, 2, 3]))
    if kind == "shell":
        said = subprocess.run("echo 5 | tr 5 6", shell=True, check=True, capture_output=True)
        return int(said.stdout)
    context = multiprocessing.get_context(kind)
    with context.Pool(2) as pool, ProcessPoolExecutor(2, mp_context=context) as executor:
        return sum(pool.map(abs, [-1, -2])) + sum(executor.map(abs, [-3]))


@app.task(name="share_memory")
def share_memory(path: str, name: str, seconds: float) -> None:
    """Memory that forks are to see: a file, which nobody removes who is killed."""
    from multiprocessing.shared_memory import SharedMemory

    memory = SharedMemory(name, create=True, size=MEGABYTE)
    note(path, "start")
    time.sleep(seconds)
    memory.close()  # and has forgotten to unlink it
