"""`millgate dev` with real processes: what ends it, what it scales, what it never interrupts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from support.wait import eventually

TASKS = """
    import os, time
    from millgate import App
    app = App()

    @app.task(topic="naps")
    def nap(seconds: float) -> int:
        time.sleep(seconds)
        return os.getpid()

    @app.task(topic="naps")
    def hold(path: str) -> None:
        while not os.path.exists(path):
            time.sleep(0.1)
"""
QUEUE = """
    apiVersion: millgate.dev/v1alpha1
    kind: TaskQueue
    metadata: {name: naps}
    spec:
      broker: {type: Local}
      workers:
        image: none
        app: "naps:app"
        children: 1
        drainTimeout: 20s
        autoscaling: {min: 0, max: 3, idleAfter: 1s, stabilization: 2s, scaleIn: {percent: 100}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "naps.py").write_text(dedent(TASKS))
    (tmp_path / "queue.yaml").write_text(dedent(QUEUE))
    return tmp_path


def command(folder: Path, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "millgate.cli", "dev", "-f", str(folder), *arguments)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *arguments), capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    log = (folder / "log").open("w")
    process = subprocess.Popen(command(folder, *arguments), stdout=log, stderr=log, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        log.close()


def driver(folder: Path, text: str) -> None:
    (folder / "driver.py").write_text(dedent(text))


def test_it_ends_when_the_driver_has_ended_and_the_queue_is_empty(folder: Path) -> None:
    driver(folder, "import naps; [naps.nap.send(0.5) for _ in range(4)]")
    done = run(folder, "--once", "driver.py")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("naps  ")]
    assert row[2:5] == ["4", "0", "0"]


def test_the_drivers_exit_code_is_its_own_and_its_output_is_shown(folder: Path) -> None:
    done = run(folder, "--", sys.executable, "-c", "print('hello'); raise SystemExit(7)")
    assert done.returncode == 7
    assert "hello" in done.stdout.splitlines()


def test_it_scales_up_and_in_without_interrupting_a_task(folder: Path) -> None:
    """Three workers for a burst; then one leaves, never the one with the long task, which is left alone."""
    driver(
        folder,
        """
        import json, pathlib, time, naps

        def until(count, end=time.monotonic() + 90):
            while (there := len(naps.app.broker.stats().workers)) != count:
                if time.monotonic() > end:
                    break
                time.sleep(0.2)
            return there

        gate = pathlib.Path(naps.__file__).with_name("gate")
        long = naps.hold.send(str(gate))
        burst = naps.nap.send_many([(2.0,)] * 12)
        most = until(3)
        for one in burst:
            one.result(timeout=60)
        least = until(2)
        gate.touch()
        long.result(timeout=30)
        print(json.dumps({"most": most, "least": least, "attempt": long.status().attempt}))
        """,
    )
    done = run(folder, "--once", "driver.py")
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    seen = json.loads(line)
    assert seen["most"] == 3
    assert seen["least"] == 2
    assert seen["attempt"] == 1
    assert "may claim no more" in done.stdout
    assert "task goes back" not in done.stdout


def test_ctrl_c_lets_running_tasks_end_and_keeps_the_others_for_the_next_time(folder: Path) -> None:
    data = ("--data", str(folder / "d"))
    send = (sys.executable, "-m", "millgate.cli", "send", "naps.nap", "--topic", "naps")
    where = {
        **os.environ,
        "MILLGATE_BROKER": f"local://{folder}/d/broker.sock",
        "MILLGATE_QUEUE": "default.naps",
    }
    with running(folder, *data) as process:
        eventually((folder / "d" / "broker.sock").exists)
        for number in range(8):
            flags = ("--id", f"n{number}", "--args", "[2.0]")
            eventually(lambda flags=flags: subprocess.run((*send, *flags), env=where, check=False).returncode == 0)  # type: ignore[misc]  # fmt: skip
        time.sleep(2.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    log = (folder / "log").read_text()
    (row,) = [line.split() for line in log.splitlines() if line.startswith("naps  ")]
    ended, left = int(row[2]), int(row[4])
    assert ended >= 1
    assert ended + left == 8
    assert "task buried" not in log
    driver(folder, "import naps\nfor n in range(8): naps.app.get(f'n{n}').result(timeout=30)")
    again = run(folder, *data, "--once", "driver.py")
    assert again.returncode == 0, again.stdout + again.stderr


def test_an_edited_limit_and_an_edited_app_hold_without_a_restart(folder: Path) -> None:
    driver(
        folder,
        """
        import pathlib, time, naps
        home = pathlib.Path(naps.__file__).parent
        broker = naps.app.broker
        before = naps.nap.send(0.0).result(timeout=30)
        topic = (
            "apiVersion: millgate.dev/v1alpha1\\nkind: Topic\\nmetadata: {name: naps}\\n"
            "spec: {queueRef: {name: naps}, concurrency: {limit: 1}}\\n"
        )
        (home / "topic.yaml").write_text(topic)
        end = time.monotonic() + 20
        while broker.configuration().policy("naps").limit != 1:
            assert time.monotonic() < end
            time.sleep(0.1)
        (home / "topic.yaml").write_text(topic.replace("limit: 1", "limit: none"))
        time.sleep(2.5)
        assert broker.configuration().policy("naps").limit == 1
        source = (home / "naps.py").read_text()
        (home / "naps.py").write_text(source.replace("return os.getpid()", "return 'edited'"))
        while naps.nap.send(0.0).result(timeout=30) != "edited":
            assert time.monotonic() < end + 40
            time.sleep(0.5)
        """,
    )
    done = run(folder, "--reload", "--once", "driver.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "taken over" in done.stdout
    assert "not taken over" in done.stdout
    assert "spec.concurrency.limit" in done.stdout


def test_edits_of_several_queues_are_taken_over_together_or_not_at_all(folder: Path) -> None:
    other = dedent(QUEUE).replace("name: naps", "name: rests")
    (folder / "rests.yaml").write_text(
        re.sub("autoscaling: .*", "autoscaling: {mode: External}", other)
    )
    driver(
        folder,
        """
        import pathlib, time, naps
        home = pathlib.Path(naps.__file__).parent
        topic = (
            "apiVersion: millgate.dev/v1alpha1\\nkind: Topic\\nmetadata: {name: %s}\\n"
            "spec: {queueRef: {name: %s}, topicName: naps, concurrency: {limit: 1}}\\n---\\n"
        )
        good, bad = topic % ("a", "naps"), topic % ("b", "rests") + topic % ("c", "rests")
        (home / "topics.yaml").write_text(good + bad)
        time.sleep(3)
        assert naps.app.broker.configuration().policy("naps").limit is None
        (home / "topics.yaml").write_text(good)
        end = time.monotonic() + 20
        while naps.app.broker.configuration().policy("naps").limit != 1:
            assert time.monotonic() < end
            time.sleep(0.1)
        """,
    )
    done = run(folder, "--once", "driver.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not taken over: Topic c: its topic name is taken by Topic b" in done.stdout


def test_an_app_that_cannot_be_imported_ends_it_with_the_workers_code(folder: Path) -> None:
    (folder / "naps.py").write_text("import no_such_module_anywhere\n")
    (folder / "queue.yaml").write_text(dedent(QUEUE).replace("min: 0", "min: 1"))
    done = run(folder, "--", sys.executable, "-c", "import time; time.sleep(60)")
    assert done.returncode == 3
    assert "no_such_module_anywhere" in done.stdout


def test_a_wrong_manifest_starts_nothing(folder: Path) -> None:
    (folder / "queue.yaml").write_text(dedent(QUEUE).replace("children: 1", "children: 0"))
    done = run(folder)
    assert done.returncode == 2
    assert "spec.workers.children" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_second_run_in_one_folder_is_refused_and_the_first_goes_on(folder: Path) -> None:
    with running(folder, "--data", str(folder / "d")) as process:
        eventually(lambda: "queue default.naps" in (folder / "log").read_text())
        second = run(folder, "--data", str(folder / "d"))
        assert second.returncode == 2
        assert second.stderr.startswith("millgate: error: another millgate dev")
        assert process.poll() is None


def test_a_killed_broker_ends_it_soon_and_says_where_the_tasks_are(folder: Path) -> None:
    (folder / "queue.yaml").write_text(dedent(QUEUE).replace("min: 0", "min: 1"))
    with running(folder, "--data", str(folder / "d")) as process:
        eventually(lambda: "1 worker" in (folder / "log").read_text())
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            if b"brokerd" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)
        began = time.monotonic()
        assert process.wait(60) == 1
        assert time.monotonic() - began < 12.0
    log = (folder / "log").read_text()
    assert f"its tasks are kept in {folder / 'd'}" in log
    assert "Traceback" not in log


def test_ctrl_c_ends_the_wait_for_a_broker_that_is_away(folder: Path) -> None:
    with running(folder, "--broker", "postgresql://127.0.0.1:1/none") as process:
        time.sleep(1.5)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert time.monotonic() - began < 5.0
    assert "Traceback" not in (folder / "log").read_text()


def test_killing_it_leaves_no_process(folder: Path) -> None:
    with running(folder, "--data", str(folder / "d")) as process:
        eventually(lambda: "workers" in (folder / "log").read_text())
        time.sleep(1.0)
        process.kill()
        process.wait()

    def mine() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if (
                    str(folder).encode()
                    in path.read_bytes() + path.with_name("cmdline").read_bytes()
                ):
                    found.append(path.parent.name)
            except OSError:
                continue
        return found

    eventually(lambda: mine() == [], timeout=20)
