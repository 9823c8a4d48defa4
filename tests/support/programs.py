"""Server programs as child processes: found or installed, run under a keeper, in folders of their own account."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from support import keeper

_PORTS = range(10_000, 32_768)  # below those of outgoing connections, as Linux comes
START: float = 60.0  # seconds that a server may take until it answers


def free_port() -> int:
    """A loopback port that nobody listens on now.

    Not one of those that the kernel gives to outgoing connections: between this moment and the server's start it could
    give it to anybody.
    """
    while True:
        port = secrets.choice(_PORTS)  # `random` begins alike in every process of the tests
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def listens(port: int) -> bool:
    """Whether something accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def need(program: str, folders: Sequence[Path], packages: Sequence[str]) -> Path:
    """The path of a server program; installed first where we may, else an error that names the packages."""
    found = _find(program, folders)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(packages)
        found = _find(program, folders)
    if found is None:
        raise RuntimeError(
            f"{program} is missing; install the Debian packages {' '.join(packages)}"
        )
    return found


def _find(program: str, folders: Sequence[Path]) -> Path | None:
    for folder in folders:
        if (folder / program).exists():
            return folder / program
    found = shutil.which(program)
    return Path(found) if found else None


def _install(packages: Sequence[str]) -> None:
    # policy-rc.d answers 101: the packages must not start services of their own
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    )


def user_for(name: str) -> str:
    """The account that a server runs as: its own when we are root, ours (empty) otherwise."""
    if os.geteuid() != 0:
        return ""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return "nobody"
    return name


class Kept:
    """One server program under a keeper."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stop: signal.Signals,
        user: str,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        with log.open("ab") as output:
            self._keeper = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    keeper.__file__,
                    str(int(stop)),
                    user,
                    str(log.parent),
                    *command,
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=dict(os.environ, LC_ALL="C.UTF-8") | dict(environment or {}),
                cwd="/",
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the keeper; the program is its only child."""
        return self._keeper.pid

    @property
    def running(self) -> bool:
        """Whether the program still runs."""
        return self._keeper.poll() is None

    def check(self) -> None:
        """Raise with the log's tail when the program has ended."""
        if not self.running:
            self.stop()  # closes the pipe, which would be complained about wherever it is collected
            tail = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the server ended with {self._keeper.returncode}: {tail}")

    def stop(self) -> None:
        """End the program and wait for that."""
        pipe: IO[bytes] | None = self._keeper.stdin
        if pipe is not None and not pipe.closed:
            with suppress(BrokenPipeError):
                pipe.write(b".")
                pipe.flush()
            with suppress(BrokenPipeError):
                pipe.close()
        self._keeper.wait(30)


class Folder:
    """A temporary folder that belongs to a server's account."""

    def __init__(self, user: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="millgate-"))
        self._user = user
        self.own(self.path)

    def own(self, path: Path) -> None:
        """Hand a file or folder over to the server's account."""
        if self._user:
            shutil.chown(path, self._user, self._user)

    def remove(self) -> None:
        """Delete it with all in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def wait_until_up(kept: Kept, port: int) -> None:
    """Wait until the port accepts connections; fail at once when the program has ended."""
    end = time.monotonic() + START
    while not listens(port):
        kept.check()
        if time.monotonic() > end:
            raise RuntimeError(f"nothing listens on port {port} after {START} s")
        time.sleep(0.05)


def cache_folder() -> Path:
    """Where prepared files are kept between runs, outside of the repository and readable for server accounts."""
    base = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    folder = base / "millgate-tests"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return folder
