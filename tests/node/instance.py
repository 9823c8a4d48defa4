"""One set of namespaces: made, found again by its name, told what to run, entered, ended without anything left."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from node import cache, cgroups, packages, programs, settings, setup, trash
from node.cache import Say
from node.components import components
from node.layout import MOST_NODES, Layout, complaint
from node.processes import Identity, identify, only_child

INIT = Path(__file__).with_name("init.py")
LISTENER_FD, OWNER_FD = 10, 11  # numbers in the first process


class InstanceFailed(Exception):
    """An instance could not be made, or a program in it did not do what it should."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that was started: its layout, its outermost and its first process."""

    layout: Layout
    top: Identity
    init: Identity

    @property
    def name(self) -> str:
        return self.layout.folder.name

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.init.is_alive()

    def enter(self, *argv: str | Path, cwd: Path | None = None) -> list[str]:
        """The command that runs argv inside, with the instance's programs and kubeconfig at hand."""
        own_user = [] if settings.is_root() else ["-U", "--preserve-credentials"]
        return [
            *("nsenter", "-t", str(self.init.pid), *own_user, "-n", "-m", "-p", "--"),
            *("env", f"--chdir={cwd or Path.cwd()}", f"KUBECONFIG={self.layout.kubeconfig}"),
            f"KUBECACHEDIR={self.layout.folder}/kube-cache",
            f"PATH={settings.search_path(self.layout.programs)}",
            *map(str, argv),
        ]

    def start(self, *names: str) -> None:
        """Start components; those that run are left alone."""
        for name in names:
            self._ask(verb="start", name=name)

    def signal(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a component a signal; after SIGKILL it is gone on return."""
        self._ask(verb="signal", name=name, number=int(number))

    def status(self) -> dict[str, dict[str, int | None]]:
        """Process and exit code of every component that was started; the process is None when it ended."""
        reply: dict[str, dict[str, int | None]] = self._ask(verb="status")["components"]
        return reply

    def log(self, name: str, lines: int = 20) -> str:
        """The last lines of a component's log."""
        with suppress(OSError):
            text = (self.layout.logs / f"{name}.log").read_text(errors="replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def check(self, *names: str) -> None:
        """Raise InstanceFailed when one of these components ended, with the end of its log."""
        for name, state in self.status().items():
            if name in names and state["pid"] is None:
                raise InstanceFailed(f"{name} ended with code {state['code']}:\n{self.log(name)}")

    def end(self, *, wait: bool = False) -> None:
        """End all that runs in it and remove all that it made; wait: until its files are deleted, too."""
        self.init.kill()
        self.top.kill()
        with suppress(ChildProcessError):
            os.waitpid(self.top.pid, 0)  # when it is our child, nobody else collects it
        deleting = _remove(self.layout.folder, self.layout.cgroup)
        if wait:
            trash.wait(deleting)

    def _ask(self, **request: object) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.layout.control))
                connection.sendall(json.dumps(request).encode() + b"\n")
                reply: dict[str, Any] = json.loads(connection.makefile().readline() or "{}")
        except (OSError, ValueError) as error:
            raise InstanceFailed(f"the instance {self.name} does not answer: {error}") from error
        if "error" in reply:
            raise InstanceFailed(str(reply["error"]))
        return reply


def instances() -> Path:
    """The folder of the folders of all instances."""
    return cache.folder("instances")


def find(name: str) -> Instance | None:
    """The running instance of that name."""
    record = _record(instances() / name)
    if record is None or "init" not in record:
        return None
    layout = record["layout"]
    paths = {"folder": Path(layout["folder"]), "programs": Path(layout["programs"])}
    found = Instance(
        Layout(**{**layout, **paths}),
        Identity(**record["top"]),
        Identity(**record["init"]),
    )
    return found if found.is_alive() else None


def running() -> list[Instance]:
    """Every running instance."""
    found = [find(folder.name) for folder in sorted(instances().iterdir()) if folder.is_dir()]
    return [instance for instance in found if instance is not None]


def sweep(say: Say) -> None:
    """Remove what runs that were killed left behind: their folders and their control groups."""
    with cache.locked("instances", say):
        _sweep()


def _sweep() -> None:
    """As sweep(), by one that holds the lock: under it no folder is without the record of whom it belongs to."""
    for folder in sorted(path for path in instances().iterdir() if path.is_dir()):
        record = _record(folder) or {}
        owners = [Identity(**record[who]) for who in ("maker", "init") if who in record]
        if not any(owner.is_alive() for owner in owners):
            _remove(folder, record["layout"]["cgroup"] if "layout" in record else None)
    trash.empty()
    for name in cgroups.left_over():
        cgroups.remove(name)


def make(name: str, *, nodes: int, say: Say, ends_with_us: bool) -> Instance:
    """Make an instance; nothing runs in it yet but its first process.

    nodes: how many nodes run pods, which needs root; none makes an API server alone.
    ends_with_us: it ends when this process does, however that ends.
    """
    if not 0 <= nodes <= MOST_NODES:
        raise InstanceFailed(f"{nodes} nodes: an instance has between 0 and {MOST_NODES}")
    if nodes and not settings.is_root():
        raise InstanceFailed("a node needs root; the API server alone, kind and current do not")
    binaries = programs.build(say)
    packages.require(packages.NODE if nodes else packages.API, say)
    folder = instances() / name
    if problem := complaint(folder):
        raise InstanceFailed(problem)
    with cache.locked("instances", say):
        _sweep()
        if folder.exists():
            raise InstanceFailed(f"the instance {name} runs already")
        folder.mkdir()
        maker = identify(os.getpid())
        assert maker is not None
        _write_record(folder, {"maker": asdict(maker)})
    try:
        return _make(folder, binaries, nodes=nodes, ends_with_us=ends_with_us)
    except BaseException:
        _remove(folder, None)
        raise


def _make(folder: Path, binaries: Path, *, nodes: int, ends_with_us: bool) -> Instance:
    for part in ("run", "log", "config", "pki"):
        (folder / part).mkdir()
    plan_end, plan = os.pipe()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = listener.getsockname()[1]
        # a process descriptor tells of our end, and no child of ours can hold it open as it could a pipe
        owner = os.pidfd_open(os.getpid()) if ends_with_us else None
        handed_in = [plan_end, *(_far(fd) for fd in (listener.fileno(), owner) if fd is not None)]
        top = _spawn(folder, *handed_in)
    for used in (*handed_in, owner):
        if used is not None:
            os.close(used)
    init = _wait_for_child(folder, top)
    layout = Layout(folder, binaries, port, cgroups.name_for(init), nodes)
    instance = Instance(layout, top, init)
    try:
        _write_record(folder, _as_record(instance))
        setup.prepare(layout)
        with open(plan, "w") as pipe:  # noqa: PTH123 - a number, not a path
            pipe.write(json.dumps(_plan(layout, owner=owner is not None)) + "\n")
        _wait_for_control(instance)
    except BaseException:
        instance.end()
        raise
    return instance


def _far(number: int) -> int:
    """The same file under a number that cannot be one of those it is to have in the first process."""
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, OWNER_FD + 1)


def _spawn(folder: Path, plan: int, listener: int, owner: int | None = None) -> Identity:
    own_user = [] if settings.is_root() else ["--user", "--map-root-user"]
    argv = ["unshare", *own_user, "--net", "--mount", "--pid", "--fork", "--kill-child"]
    argv += ["--mount-proc", sys.executable, "-I", "-S", str(INIT)]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawnp(
        "unshare",
        argv,
        {"PATH": settings.search_path(), "HOME": str(folder), "LANG": "C.UTF-8"},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, plan, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(folder / "log" / "init.log"), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            (os.POSIX_SPAWN_DUP2, listener, LISTENER_FD),
            *([] if owner is None else [(os.POSIX_SPAWN_DUP2, owner, OWNER_FD)]),
        ],
        setsid=True,
    )
    top = identify(pid)
    if top is None:
        raise InstanceFailed(f"unshare ended at once:\n{_init_log(folder)}")
    return top


def _plan(layout: Layout, *, owner: bool) -> dict[str, object]:
    env = {"PATH": settings.search_path(layout.programs), "HOME": str(layout.folder)}
    return {
        "setup": setup.commands(layout),
        "components": {
            name: {"argv": list(component.argv), "env": {**env, **component.env}}
            for name, component in components(layout).items()
        },
        "logs": str(layout.logs),
        "control": str(layout.control),
        "target": ["127.0.0.1", layout.port],
        "listener": LISTENER_FD,
        "lifeline": OWNER_FD if owner else None,
    }


def _wait_for_child(folder: Path, top: Identity) -> Identity:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and top.is_alive():
        child = only_child(top.pid)
        found = identify(child) if child is not None else None
        if found is not None:
            return found
        time.sleep(0.005)
    top.kill()
    raise InstanceFailed(f"no namespaces could be made:\n{_init_log(folder)}")


def listens(path: Path) -> bool:
    """Whether connections to that socket are taken: its name is there a moment before."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def _wait_for_control(instance: Instance) -> None:
    deadline = time.monotonic() + 20
    while not listens(instance.layout.control):
        if not instance.is_alive() or time.monotonic() > deadline:
            said = _init_log(instance.layout.folder)
            raise InstanceFailed(f"the namespaces could not be set up:\n{said}")
        time.sleep(0.005)


def _init_log(folder: Path) -> str:
    with suppress(OSError):
        return (folder / "log" / "init.log").read_text(errors="replace").strip()
    return ""


def _as_record(instance: Instance) -> dict[str, Any]:
    layout = asdict(instance.layout)
    layout |= {"folder": str(layout["folder"]), "programs": str(layout["programs"])}
    return {
        "layout": layout,
        "top": asdict(instance.top),
        "init": asdict(instance.init),
    }


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    partial = folder / "instance.json.partial"
    partial.write_text(json.dumps(record))
    partial.rename(folder / "instance.json")


def _record(folder: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((folder / "instance.json").read_text())
    except OSError:
        return None
    return record


def _remove(folder: Path, cgroup: str | None) -> int | None:
    """Remove an instance's folder and control group; the process that deletes the files."""
    deleting = trash.throw_away(folder)
    deadline = time.monotonic() + 10
    # the kernel takes a moment to let go of a group whose processes were killed
    while cgroup is not None and not cgroups.remove(cgroup) and time.monotonic() < deadline:
        time.sleep(0.05)
    return deleting
