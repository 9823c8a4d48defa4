"""The first process inside an instance: sets its namespaces up, starts and ends programs when told to, reaps.

It runs by its path, alone, on the standard library. The plan comes as JSON on standard input:

    setup       commands to run first, each a list of words
    components  name → {"argv": [...], "env": {...}}
    logs        folder for one log file per component
    control     path of the Unix socket that takes one JSON request a line: {"verb", "name", ...}
    target      [host, port] inside, to which connections on the listener that was handed in are passed on
    listener    number of that listener: a socket of the network outside, so that clients there reach the target
    lifeline    number of a pipe, or null: when its other end closes, everything here ends

When this process ends, the kernel ends all that runs in its process namespace.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

CHUNK = 256 * 1024


class Components:
    """The programs of the plan: which run, and how those ended that do not."""

    def __init__(self, plan: dict[str, dict[str, Any]], logs: str) -> None:
        self.plan, self.logs = plan, logs
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.ended: dict[str, asyncio.Event] = {}

    def start(self, name: str) -> None:
        """Start a component unless it runs."""
        if name in self.pids:
            return
        component = self.plan[name]
        log = os.path.join(self.logs, f"{name}.log")  # noqa: PTH118 - the path arrives as text
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.codes.pop(name, None)
        self.ended[name] = asyncio.Event()
        self.pids[name] = os.posix_spawn(
            component["argv"][0],
            component["argv"],
            component["env"],
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
        )

    async def signal(self, name: str, number: int) -> None:
        """Send a signal; after SIGKILL return when the component is gone."""
        pid = self.pids.get(name)
        if pid is None:
            return
        os.kill(pid, number)
        if number == signal.SIGKILL:
            await self.ended[name].wait()

    def reap(self) -> None:
        """Collect every process that ended, ours or left to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name in [name for name, known in self.pids.items() if known == pid]:
                del self.pids[name]
                self.codes[name] = os.waitstatus_to_exitcode(status)
                self.ended[name].set()

    def status(self) -> dict[str, dict[str, int | None]]:
        """Process and exit code of every component that was started; the process is None when it ended."""
        return {
            name: {"pid": self.pids.get(name), "code": self.codes.get(name)} for name in self.ended
        }


async def answer(components: Components, request: dict[str, Any]) -> dict[str, Any]:
    """Do what one request asks for."""
    verb, name = request.get("verb"), str(request.get("name", ""))
    if verb == "status":
        return {"components": components.status()}
    if name not in components.plan:
        return {"error": f"no component {name!r}; there are: {', '.join(components.plan)}"}
    if verb == "start":
        components.start(name)
    elif verb == "signal":
        await components.signal(name, int(request["number"]))
    else:
        return {"error": f"no verb {verb!r}"}
    return {}


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction of a connection until its end."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int]
) -> None:
    """Join a connection from outside with one to the target; a target that is down shows as a closed connection."""
    try:
        inner_reader, inner_writer = await asyncio.open_connection(*target)
    except OSError:
        writer.transport.abort()
        return
    try:
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
    finally:
        inner_writer.close()
        writer.close()


async def serve(plan: dict[str, Any]) -> None:
    """Serve until told to end."""
    loop = asyncio.get_running_loop()
    components = Components(plan["components"], plan["logs"])
    loop.add_signal_handler(signal.SIGCHLD, components.reap)
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)

    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            try:
                reply = await answer(components, json.loads(line))
            except (OSError, ValueError, KeyError) as error:
                reply = {"error": f"{type(error).__name__}: {error}"}
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await forward(reader, writer, tuple(plan["target"]))

    listener = socket.socket(fileno=plan["listener"])
    outer = await asyncio.start_server(connect, sock=listener)
    if plan["lifeline"] is not None:
        loop.add_reader(plan["lifeline"], stopping.set)
    inner = await asyncio.start_unix_server(control, path=plan["control"])
    await stopping.wait()
    inner.close()
    outer.close()


def main() -> int:
    """Set up, serve, end."""
    plan = json.loads(sys.stdin.readline())
    for command in plan["setup"]:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"{' '.join(command)}: {done.stderr.strip()}", file=sys.stderr)
            return 1
    asyncio.run(serve(plan))
    return 0


if __name__ == "__main__":
    sys.exit(main())
