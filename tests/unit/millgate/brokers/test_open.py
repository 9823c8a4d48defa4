"""URLs of brokers: what is refused, and what may be shown of one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from millgate.brokers import open_broker, redact
from millgate.errors import InvalidSettings


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@h:5/d?sslmode=require", "postgresql://u:***@h:5/d?sslmode=require"),
        ("postgresql:///d?password=secret&host=h", "postgresql:///d?password=***&host=h"),
        ("local:///path/q.sock?journal=on", "local:///path/q.sock?journal=on"),
        ("local://", "local://"),
        ("memory://", "memory://"),
        ("redis://u:sec/ret@h:6379/0", "redis://***@h:6379/0"),
        ("amqp://u:sec?ret@h/v", "amqp://***@h/v"),
        ("postgresql://u:sec[ret@h/d", "postgresql://***@h/d"),
    ],
)
def test_a_url_is_shown_as_it_was_written_without_its_password(url: str, shown: str) -> None:
    assert redact(url) == shown


def test_an_unknown_scheme_names_those_that_can_be_used() -> None:
    with pytest.raises(InvalidSettings, match="local://, postgres://") as refused:
        open_broker("https://h")
    assert "memory://" in str(refused.value)


@pytest.mark.parametrize(
    ("driver", "command", "extra"),
    [
        ("psycopg", "status --broker postgresql://h/d", "postgres"),
        ("hiredis", "status --broker redis://h", "redis"),
        ("pika", "status --broker amqp://h", "rabbitmq"),
        ("pika", "brokerd --broker amqps://h", "rabbitmq"),
    ],
)
def test_a_driver_that_is_missing_is_told_with_what_installs_it(
    driver: str, command: str, extra: str
) -> None:
    program = f"import sys; sys.modules[{driver!r}] = None; from millgate.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", program, *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith("millgate: error: ")
    assert line.endswith(f":// needs a driver: pip install 'millgate[{extra}]'")
