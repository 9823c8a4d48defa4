"""What goes wrong at start is said in one line, with an exit code, and never tried for ever."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import no_such_module_anywhere\n", "No module named 'no_such_module_anywhere'"),
        ("app = 5\n", "'broken:app' is a int, not a millgate.App"),
        ("other = 5\n", "module 'broken' has no 'app'"),
        ("def broken(:\n", "SyntaxError"),
        ("raise RuntimeError('the database is down')\n", "RuntimeError: the database is down"),
        ("import sys; sys.exit(3)\n", "SystemExit"),
        ("from millgate import App\napp = App('memory://')\n", "'broken:app' has no tasks; import"),
    ],
)
def test_an_app_that_cannot_be_imported(
    bench: Any, tmp_path: Path, source: str, words: str
) -> None:
    (tmp_path / "broken.py").write_text(source, encoding="utf-8")
    worker = bench.start(app="broken:app", cwd=tmp_path)
    assert worker.wait(20) == 3
    [line] = worker.raw().splitlines()
    assert line.startswith("millgate: error: ")
    assert words in line


@pytest.mark.parametrize("preload", [False, True])
def test_an_import_that_ends_its_process_is_tried_again_and_then_an_error(
    bench: Any, tmp_path: Path, preload: bool
) -> None:
    (tmp_path / "fatal.py").write_text("import os; os._exit(7)\n", encoding="utf-8")
    flags = {"preload": True} if preload else {}
    worker = bench.start(app="fatal:app", cwd=tmp_path, **flags)
    assert worker.wait(40) == 3
    [line] = worker.raw().splitlines()
    assert line.startswith("millgate: error: no child gets as far as a task, 6 tries: ")
    assert ("while it imported the app" if preload else "exit code 7") in line
    assert len(worker.events("child failed")) == 6


def test_tasks_may_be_imported_by_a_start_hook(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "from millgate import App\n"
        "app = App('memory://')\n"
        "@app.on_start\n"
        "def discover():\n"
        "    import made_tasks\n",
        encoding="utf-8",
    )
    (tmp_path / "made_tasks.py").write_text(
        "from made import app\n@app.task(name='one')\ndef one(): return 1\n", encoding="utf-8"
    )
    bench.ready(app="made:app", cwd=tmp_path)
    assert bench.result(bench.send("one")) == 1


def hooked(bench: Any, folder: Path, error: str) -> Any:
    """A worker whose app has a start hook that raises `error`."""
    (folder / "hooked.py").write_text(
        "from millgate import App\n"
        "app = App('memory://')\n"
        "class Odd(Exception):\n"
        "    def __str__(self): raise RuntimeError('never')\n"
        "@app.on_start\n"
        "def connect():\n"
        f"    raise {error}\n",
        encoding="utf-8",
    )
    return bench.start(app="hooked:app", cwd=folder)


def test_a_start_hook_that_fails(bench: Any, tmp_path: Path) -> None:
    worker = hooked(bench, tmp_path, r"OSError('no route\nto it')")
    assert worker.wait(20) == 3
    [line] = worker.raw().splitlines()
    assert "on_start" in line
    assert "no route to it" in line


def test_a_hook_whose_error_resists_ends_it_with_an_error_too(bench: Any, tmp_path: Path) -> None:
    worker = hooked(bench, tmp_path, "Odd")
    assert worker.wait(20) == 3
    assert "on_start: hooked.Odd" in worker.raw()


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("word", ["def", "async def"])
def test_a_hook_at_the_end_may_send_what_it_has_gathered(
    bench: Any, tmp_path: Path, word: str, slots: int
) -> None:
    (tmp_path / "hooked.py").write_text(
        "from millgate import App\n"
        "app = App('memory://')\n"
        "gathered = []\n"
        "@app.task(name='gather')\n"
        f"{word} gather(number): gathered.append(number)\n"
        "@app.task(name='flush', topic='flushed')\n"
        "def flush(numbers): ...\n"
        "@app.on_stop\n"
        f"{word} send(): flush.send(gathered)\n",
        encoding="utf-8",
    )
    ids = bench.send_many("gather", [(1,), (2,)])
    worker = bench.ready(app="hooked:app", cwd=tmp_path, children=1, slots=slots, topics="default")
    bench.ends_of(ids)
    assert worker.stop() == 0
    [sent] = bench.broker.peek("flushed", "waiting")
    assert sent.message.body == b"[[[1,2]],{}]"


def test_a_port_that_is_taken_is_an_error(bench: Any) -> None:
    first = bench.ready()
    second = bench.start(metrics=f"127.0.0.1:{first.port}")
    assert second.wait(20) == 2
    assert "--metrics: cannot listen on" in second.raw()


def test_a_broker_that_refuses_is_an_error_at_once(bench: Any, tmp_path: Path) -> None:
    key = tmp_path / "another-key"
    key.write_bytes(b"0" * 64)
    key.chmod(0o600)
    worker = bench.start(broker=f"local://{bench.venue.daemon.path}?key_file={key}")
    assert worker.wait(20) == 4
    assert worker.raw().count("\n") == 0
    assert worker.raw().startswith("millgate: error: broker local:")


def test_two_workers_of_one_name_do_not_fight(bench: Any) -> None:
    first = bench.ready(name="twin")
    second = bench.ready(name="twin")
    bench.send("add", 1, 1)
    assert first.wait(30) == 4
    assert "another worker named 'twin' is registered" in first.raw()
    assert bench.result(bench.send("add", 2, 1)) == 3
    assert second.process.poll() is None


def test_flags_that_contradict_each_other_are_refused_before_anything_starts(bench: Any) -> None:
    worker = bench.start(max_rss="200Mi", hard_max_rss="100Mi")
    assert worker.wait(20) == 2
    assert worker.raw().startswith("millgate: error: --max-rss:")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("kafka://bob:s3cret@db", "unknown scheme; use one of memory://, local://"),
        ("local://[::1", "Invalid IPv6 URL"),
        ("redis://db/1?nonsense=1", "unknown ?nonsense"),
    ],
)
def test_a_broker_that_is_none_is_refused_in_one_line(bench: Any, url: str, words: str) -> None:
    worker = bench.start(broker=url)
    assert worker.wait(20) == 2
    [line] = worker.raw().splitlines()
    assert line.startswith("millgate: error: ")
    assert words in line
    assert "s3cret" not in line


def test_a_broker_that_is_not_there_is_tried_for_a_while_and_then_an_error(
    bench: Any, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"1" * 64)
    key.chmod(0o600)
    worker = bench.start(broker=f"local://192.0.2.1:7411?key_file={key}")
    assert worker.wait(60) == 4
    [line] = worker.raw().splitlines()
    assert line.startswith("millgate: error: broker local://192.0.2.1:7411")
    assert "tried for 30s" in line
    began, *_, ended = (entry["time"] for entry in worker.log() if "time" in entry)
    lasted = datetime.fromisoformat(ended) - datetime.fromisoformat(began)
    assert 29 < lasted.total_seconds() < 55
