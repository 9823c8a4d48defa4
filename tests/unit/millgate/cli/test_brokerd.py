"""What `millgate brokerd` serves, by its flags and variables, and what it refuses before it serves anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from millgate.brokers.local import brokerd as local
from millgate.brokers.rabbitmq import brokerd as rabbitmq
from millgate.brokers.rabbitmq.role import Brokerd

from .conftest import Shell

URL = "amqp://user:hunter2@rabbit.shop.svc/orders"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was asked to be served, in place of serving it."""
    asked: list[object] = []
    monkeypatch.setattr(local, "serve", lambda how, *_: asked.append(how))
    monkeypatch.setattr(rabbitmq, "serve", lambda how, *_: asked.append(how))
    return asked


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A URL as a mounted Secret holds it."""
    path = tmp_path / "uri"
    path.write_text(URL + "\n")
    return path


def test_a_url_from_a_mounted_secret_is_taken_by_flag_or_by_variable(
    shell: Shell, served: list[object], file: Path
) -> None:
    assert shell("brokerd", "--broker-file", str(file), "--queue", "shop.orders") == 0
    shell.url = ""
    shell.environ = {"MILLGATE_BROKER_FILE": str(file), "MILLGATE_QUEUE": "shop.orders"}
    assert shell("brokerd") == 0
    for how in served:
        assert isinstance(how, Brokerd)
        assert (how.target.vhost, how.queue) == ("orders", "shop.orders")
        assert how.patient
        assert how.idle is None
    assert len(served) == 2


def test_without_a_url_it_is_the_local_broker(shell: Shell, served: list[object]) -> None:
    shell.url = ""
    assert shell("brokerd") == 0
    [how] = served
    assert not isinstance(how, Brokerd)


def test_a_file_that_is_not_there_is_named(shell: Shell, served: list[object]) -> None:
    assert shell("brokerd", "--broker-file", "/nowhere/uri") == 2
    assert "--broker-file: cannot read /nowhere/uri: No such file or directory" in shell.err
    assert served == []


def test_a_server_that_needs_no_brokerd_is_refused_from_a_file_too(
    shell: Shell, served: list[object], file: Path
) -> None:
    file.write_text("postgresql://user:hunter2@db/x")
    assert shell("brokerd", "--broker-file", str(file)) == 2
    assert "other servers need no brokerd" in shell.err
    assert "hunter2" not in shell.err
    assert served == []


def test_probes_are_for_a_queue_on_rabbitmq(shell: Shell, served: list[object]) -> None:
    shell.url = ""
    assert shell("brokerd", "--metrics", ":8080") == 2
    assert "--metrics is for a queue on RabbitMQ" in shell.err
    assert served == []


def test_a_local_url_says_where_it_is_served(
    shell: Shell, served: list[object], tmp_path: Path
) -> None:
    url = f"local://{tmp_path}/q.sock?key_file={tmp_path}/key&journal=off"
    assert shell("brokerd", "--broker", url) == 0
    shell.url = f"local://{tmp_path}/q.sock"
    assert shell("brokerd") == 0
    assert shell("brokerd", "--listen", f"{tmp_path}/other.sock") == 0
    by_flag, by_variable, other = served
    assert isinstance(by_flag, local.Brokerd)
    assert isinstance(by_variable, local.Brokerd)
    assert isinstance(other, local.Brokerd)
    assert (str(by_flag.place), by_flag.data) == (f"{tmp_path}/q.sock", None)
    assert (by_flag.key_file, by_flag.private_key) == (tmp_path / "key", False)
    assert (by_variable.place, by_variable.data) == (by_flag.place, tmp_path / "q.sock.data")
    assert str(other.place) == f"{tmp_path}/other.sock"


def test_flags_of_the_local_broker_come_before_a_variable(
    shell: Shell, served: list[object], tmp_path: Path
) -> None:
    shell.url = URL
    assert shell("brokerd", "--listen", f"{tmp_path}/q.sock") == 0
    [how] = served
    assert isinstance(how, local.Brokerd)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--broker", URL, "--data", "/d"), "--data is for the local broker"),
        (("--broker", URL, "--journal", "off"), "--journal is for the local broker"),
        (("--broker", "local://", "--listen", "/q.sock"), "both say where"),
        (("--broker", URL, "--broker-file", "/f"), "exclude each other"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    shell: Shell, served: list[object], flags: tuple[str, ...], words: str
) -> None:
    assert shell("brokerd", *flags) == 2
    assert words in shell.err
    assert "hunter2" not in shell.err
    assert served == []
