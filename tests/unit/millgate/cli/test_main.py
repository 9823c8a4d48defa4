"""The front door: which module is imported, how errors end, what help and version say."""

from __future__ import annotations

import argparse
import errno
import io
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import millgate.cli
from millgate.cli import COMMANDS, EXIT_INTERNAL, EXIT_INTERRUPTED, exit_code, main
from millgate.cli.console import Console
from millgate.errors import (
    AppNotLoaded,
    AuthFailed,
    BrokerUnavailable,
    InvalidMessage,
    InvalidSettings,
    MillgateError,
    QueueFull,
    ResultTimeout,
)

from .conftest import Shell


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidSettings(), 2),
        (InvalidMessage(), 2),
        (AppNotLoaded(), 3),
        (AuthFailed(), 4),
        (BrokerUnavailable(), 4),
        (QueueFull(), 1),
        (ResultTimeout(), 1),
    ],
)
def test_every_error_has_its_exit_code(error: MillgateError, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_is_one_line_without_a_traceback(shell: Shell) -> None:
    assert shell("send", "work", "--args", "{nonsense") == 2
    assert shell.err.startswith("millgate: error: --args: not JSON")
    assert shell.err.count("\n") == 1
    assert shell.out == ""


def test_a_wrong_flag_names_itself_and_the_help(shell: Shell) -> None:
    assert shell("status", "--tpics", "x") == 2
    assert "--tpics" in shell.err
    assert "--help" in shell.err


def test_an_unknown_command_lists_the_known_ones(shell: Shell) -> None:
    assert shell("sned") == 2
    assert "'sned'" in shell.err
    assert "send" in shell.err


def test_no_command_prints_the_overview_and_is_a_usage_error(shell: Shell) -> None:
    assert shell() == 2
    for name in COMMANDS:
        assert name in shell.err


def test_version_is_that_of_the_distribution(shell: Shell) -> None:
    assert shell("--version") == 0
    assert shell.out == f"millgate {version('millgate')}\n"


def test_a_bug_is_one_line_too_and_traceback_shows_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        subparsers.add_parser("status").set_defaults(run=lambda args: 1 // 0)

    monkeypatch.setattr("millgate.cli.status.add", add)
    assert shell("status") == EXIT_INTERNAL
    assert "ZeroDivisionError" in shell.err
    assert shell.err.count("\n") == 1
    with pytest.raises(ZeroDivisionError):
        shell("--traceback", "status")


def test_ctrl_c_ends_as_shells_expect(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: list[str], console: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(millgate.cli, "_run", interrupted)
    assert shell("status") == EXIT_INTERRUPTED
    assert shell.err == ""


def test_ctrl_c_while_a_class_is_made_is_ctrl_c(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(arguments: list[str], console: object) -> int:
        raise RuntimeError("Error calling __set_name__ on 'Field'") from KeyboardInterrupt()

    monkeypatch.setattr(millgate.cli, "_run", interrupted)
    assert shell("status") == EXIT_INTERRUPTED
    assert shell.err == ""


def test_ctrl_c_in_the_middle_of_an_import_is_silent(tmp_path: Path) -> None:
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    (tmp_path / "argparse.py").write_text(slow)  # in place of the standard library's
    command = [sys.executable, "-m", "millgate", "status"]
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
        assert process.stderr.read() == b""


def test_ctrl_c_is_heard_once_a_command_runs() -> None:
    code = (
        "import signal, millgate.__main__, millgate.cli.status\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL\n"
        "def add(subparsers):\n"
        "    parser = subparsers.add_parser('status')\n"
        "    parser.set_defaults(prepare=prepare, run=lambda args: signal.raise_signal(2))\n"
        "def prepare():\n"
        "    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL\n"
        "    print('prepared')\n"
        "millgate.cli.status.add = add\n"
        "import sys; sys.argv = ['millgate', 'status']; sys.exit(millgate.__main__.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (EXIT_INTERRUPTED, "prepared\n", "")


def test_a_command_of_another_distribution_is_found_by_its_entry_point(shell: Shell) -> None:
    assert shell("sned") == 2
    assert "dev" in shell.err


def test_a_command_whose_distribution_is_missing_says_what_to_install(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(millgate.cli, "_installed", dict)
    assert shell("dev") == 2
    assert "pip install 'millgate[dev]'" in shell.err


def test_only_the_named_command_is_imported() -> None:
    code = (
        "import sys\nfrom millgate.cli import main\nmain(['pause', '--help'])\n"
        "loaded = {m for m in sys.modules if m.startswith('millgate.cli.')}\n"
        "print(sorted(loaded), file=sys.stderr)\n"
        "assert 'millgate.cli.pause' in loaded\n"
        "assert not loaded & {'millgate.cli.send', 'millgate.cli.worker', 'millgate.cli.dead'}\n"
        "assert 'asyncio' not in sys.modules and 'yaml' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_table_has_its_module_and_documents_itself(shell: Shell) -> None:
    for name in COMMANDS:
        assert shell(name, "--help") == 0, (name, shell.err)


def test_exit_codes_are_documented() -> None:
    page = Path(__file__).parents[4] / "docs/reference/exit-codes.md"
    text = page.read_text(encoding="utf-8")
    for code in (0, 1, 2, 3, 4, 5, EXIT_INTERNAL, EXIT_INTERRUPTED):
        assert f"| {code} |" in text


def test_no_broker_says_how_to_name_one(shell: Shell) -> None:
    shell.url = ""
    assert shell("status") == 2
    assert "--broker" in shell.err
    assert "MILLGATE_BROKER" in shell.err


def test_the_broker_may_be_named_in_a_file(shell: Shell, tmp_path: Path) -> None:
    secret = tmp_path / "uri"
    secret.write_text(shell.url + "\n")
    shell.url = ""
    shell.environ["MILLGATE_BROKER_FILE"] = str(secret)
    assert shell("status") == 0
    shell.environ["MILLGATE_BROKER_FILE"] = str(tmp_path / "missing")
    assert shell("status") == 2
    assert "missing" in shell.err


def test_a_password_in_a_wrong_url_is_not_printed(shell: Shell) -> None:
    assert shell("status", "--broker", "postgre://bob:s3cret@db/x") == 2
    assert "s3cret" not in shell.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("send", "work", "extra"), "unrecognized arguments: extra (see millgate send --help)"),
        (
            ("dead", "list", "extra"),
            "unrecognized arguments: extra (see millgate dead list --help)",
        ),
        (("staus",), "'staus' is no command; did you mean status? there are worker, "),
        (("status", "--deadline", "0"), "'0' is no time at all"),
        (("status", "--watch", "0"), "'0' is no time at all"),
        (("send", "work", "--attempts", "0"), "'0': give a whole number, at least 1"),
        (("send", "work", "--attempts", "9" * 30), "give a whole number, at least 1"),
        (("status", "--watch", "9" * 20), "is more than a hundred years"),
        (("status", "--deadline", "9" * 12), "is more than a hundred years"),
        (("status", "--deadline", "30d"), "deadline of 2.592e+06s: more than 0, a day at most"),
        (("status", "--broker", "local://[::1"), "broker URL: Invalid IPv6 URL"),
        (("send", "work", "--args", "[" * 100_000), "--args: this is nested too deeply"),
        (("send", "work", "--args", '["\udcff"]'), "--args: not UTF-8"),
        (("locks", "list", "name"), "`millgate locks list` takes no name"),
        (("top", "--once", "--watch", "5"), "not allowed with argument"),
        (("send", "work", "--timeout", "0"), "'0' is no time at all"),
        (("tasks", "--limit", "0"), "--limit: '0': give a whole number, at least 1"),
        (("dead", "list", "--limit", "-1"), "--limit: '-1': give a whole number, at least 1"),
        (("status", "--broker", ""), "--broker is empty"),
        (("status", "--queue", ""), "--queue is empty"),
        (("dead", "replay"), "error: name dead letters by id"),
        (("dead", "replay", "--all", "--topic", "x"), "these exclude each other"),
        (("send", "work", "--lines", "/none"), "cannot read /none: No such file or directory\n"),
    ],
)
def test_a_complaint_says_what_to_do(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    assert shell(*arguments) == 2
    assert words in shell.err
    assert shell.err.count("\n") == 1


def test_a_worker_of_a_memory_broker_is_refused(shell: Shell) -> None:
    assert shell("worker", "--app", "shop.tasks:app", "--broker", "memory://") == 2
    assert "nobody could send to this worker" in shell.err


def test_a_memory_broker_of_no_one_is_refused_not_fed(shell: Shell) -> None:
    assert shell("send", "work", "--broker", "memory://") == 2
    assert "memory:// lives within one process" in shell.err


def test_the_overview_says_what_every_command_does(shell: Shell) -> None:
    shell("--help")
    assert "from millgate-operator" not in shell.err + shell.out


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_error_that_nobody_can_read_keeps_its_exit_code() -> None:
    console = Console(err=Full(), environ={})
    assert (
        main(["status", "--broker", "local:///nowhere/at.all", "--deadline", "50ms"], console) == 4
    )


def test_what_others_said_moves_no_cursor_in_an_error_either(shell: Shell) -> None:
    assert shell("dead", "show", "x\x1b[2J\ny") == 1
    assert shell.err == "millgate: error: no dead letter x\\x1b[2J y\n"
