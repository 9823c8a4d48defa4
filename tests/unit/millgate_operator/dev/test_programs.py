"""What is started: the same settings as a pod's, the manifest's folder on the path, nothing of the caller's shell."""

from __future__ import annotations

import io
import socket
import sys
from pathlib import Path

import pytest

from millgate.cli import main
from millgate.cli.console import Console
from millgate.errors import InvalidSettings
from millgate.settings import WorkerSettings
from millgate_operator.dev import programs
from millgate_operator.dev.folder import open_folder, state_folder
from millgate_operator.spec import TaskQueue, parse_task_queue, worker_settings


def a_queue() -> TaskQueue:
    return parse_task_queue(
        {
            "apiVersion": "millgate.dev/v1alpha1",
            "kind": "TaskQueue",
            "metadata": {"name": "hello"},
            "spec": {
                "broker": {"type": "Local"},
                "workers": {
                    "image": "x",
                    "app": "tasks:app",
                    "children": 3,
                    "memory": {"maxRSS": "64Mi"},
                    "topics": {"include": ["a*"]},
                    "env": [
                        {"name": "COLOUR", "value": "blue"},
                        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    ],
                },
            },
        }
    )


def test_a_worker_gets_the_settings_of_its_pod_and_a_name() -> None:
    program = programs.worker_program(a_queue(), "hello-1", "local:///s", Path("/code"), {})
    settings = WorkerSettings.from_env(program.environ)
    pod = worker_settings(a_queue(), broker="local:///s")
    assert settings.name == "hello-1"
    assert settings.log_format == "json"
    for name in ("broker", "queue", "app", "children", "max_rss", "topics", "drain_timeout"):
        assert getattr(settings, name) == getattr(pod, name)


def test_the_callers_shell_does_not_leak_into_workers() -> None:
    environ = {"MILLGATE_CHILDREN": "64", "MILLGATE_BROKER": "postgresql://prod", "PATH": "/bin"}
    program = programs.worker_program(a_queue(), "w", "local:///s", Path("/code"), environ)
    assert program.environ["MILLGATE_CHILDREN"] == "3"
    assert program.environ["MILLGATE_BROKER"] == "local:///s"
    assert program.environ["PATH"] == "/bin"


def test_the_manifests_folder_is_on_the_path_and_its_variables_are_set() -> None:
    program = programs.worker_program(a_queue(), "w", "u", Path("/code"), {"PYTHONPATH": "/mine"})
    assert program.environ["PYTHONPATH"] == "/code:/mine"
    assert program.environ["COLOUR"] == "blue"
    assert "POD" not in program.environ


def test_a_driver_finds_broker_and_queue_in_its_environment() -> None:
    program = programs.driver_program(("make",), a_queue(), "local:///s", Path("/code"), {})
    assert program.environ["MILLGATE_BROKER"] == "local:///s"
    assert program.environ["MILLGATE_QUEUE"] == "default.hello"


def test_a_script_is_looked_for_beside_the_manifests_first(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text("")
    assert programs.driver_command("driver.py", ("-n", "3"), tmp_path) == (
        sys.executable,
        str(tmp_path / "driver.py"),
        "-n",
        "3",
    )
    elsewhere = tmp_path / "nested"
    elsewhere.mkdir()
    here = str(tmp_path / "driver.py")
    assert programs.driver_command(here, (), elsewhere) == (sys.executable, here)
    with pytest.raises(InvalidSettings, match=r"other\.py"):
        programs.driver_command("other.py", (), tmp_path)
    assert programs.driver_command(None, ("make", "x"), tmp_path) == ("make", "x")
    assert programs.driver_command(None, (), tmp_path) is None


def test_the_broker_keeps_its_tasks_only_where_they_are_found_again(tmp_path: Path) -> None:
    kept = programs.broker_program(tmp_path, {}, keep=True).command
    thrown = programs.broker_program(tmp_path, {}, keep=False).command
    assert kept[kept.index("--journal") + 1] == "on"
    assert kept[kept.index("--data") + 1] == str(tmp_path)
    assert thrown[thrown.index("--journal") + 1] == "off"
    assert "--die-with-parent" in kept


def test_each_folder_of_manifests_has_a_state_of_its_own(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    one, two = state_folder(Path("/a"), environ), state_folder(Path("/b"), environ)
    assert one != two
    kept = open_folder(Path("/a"), None, throw_away=False, environ=environ)
    assert (kept.path, kept.keep) == (one, True)
    kept.remove()
    assert one.is_dir()
    assert one.stat().st_mode & 0o077 == 0


def test_a_run_that_ends_by_itself_leaves_nothing(tmp_path: Path) -> None:
    thrown = open_folder(Path("/a"), None, throw_away=True, environ={})
    assert thrown.path.is_dir()
    thrown.remove()
    assert not thrown.path.exists()
    named = open_folder(Path("/a"), tmp_path / "data", throw_away=True, environ={})
    named.remove()
    assert named.path.is_dir()


@pytest.mark.parametrize("data", ["/dev/null", "/proc/none"])
def test_a_folder_that_cannot_be_made_is_named(data: str) -> None:
    with pytest.raises(InvalidSettings, match=f"cannot be kept in {data}: .*; name another"):
        open_folder(Path("/a"), Path(data), throw_away=True, environ={})


def test_a_program_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="no-such-program: no such program"):
        programs.driver_command(None, ("no-such-program", "x"), tmp_path)


def test_a_folder_whose_broker_listens_belongs_to_another_run(tmp_path: Path) -> None:
    programs.check_alone(tmp_path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(programs.socket_of(tmp_path)))
        other.listen()
        with pytest.raises(InvalidSettings, match="another millgate dev"):
            programs.check_alone(tmp_path)
    programs.check_alone(tmp_path)  # the socket is still there, nobody listens


def test_a_broker_that_workers_could_not_reach_is_refused() -> None:
    programs.check_broker("postgresql://h/d")
    with pytest.raises(InvalidSettings, match="--broker"):
        programs.check_broker("memory://x")
    with pytest.raises(InvalidSettings, match="--broker is empty"):
        programs.check_broker("")


def test_a_broker_of_your_own_has_no_folder_here(tmp_path: Path) -> None:
    console = Console(out=io.StringIO(), err=io.StringIO(), environ={})
    words = ["dev", "-f", str(tmp_path), "--broker", "postgresql://h/d", "--data", str(tmp_path)]
    assert main(words, console) == 2
    assert isinstance(console.err, io.StringIO)
    assert "--data is where a broker that is started here" in console.err.getvalue()
