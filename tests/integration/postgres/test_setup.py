"""Setup: once, whoever comes first, never backwards, and shown before it is done."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from millgate.brokers.postgres import PostgresBroker
from millgate.cli import main
from millgate.errors import EXIT_BROKER, EXIT_FAILED, EXIT_OK, BrokerRefused, SchemaTooNew
from support.builders import a_message
from support.postgres import database_url, fresh_queue, open_queue
from support.working import Hand


def test_twenty_clients_set_up_the_same_queue_at_once() -> None:
    name = fresh_queue()
    clients = [open_queue(name) for _ in range(20)]
    with ThreadPoolExecutor(20) as threads:
        for done in [threads.submit(client.setup) for client in clients]:
            done.result(timeout=60)
    clients[0].publish([a_message()])
    assert Hand(clients[19]).one().attempt == 1
    for client in clients:
        client.close()


def test_setting_up_again_keeps_everything(broker: PostgresBroker) -> None:
    message = a_message()
    broker.publish([message])
    broker.setup()
    assert Hand(broker).one().id == message.id


def test_a_newer_schema_is_refused_and_left_alone(broker: PostgresBroker) -> None:
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(f'UPDATE "{broker.target.schema}".meta SET version = 99')
        with pytest.raises(SchemaTooNew, match="version 99"):
            broker.setup()
        row = admin.execute(f'SELECT version FROM "{broker.target.schema}".meta').fetchone()
        assert row == (99,)


def test_a_queue_that_was_not_set_up_says_what_to_run(queue: str) -> None:
    client = open_queue(queue)
    with pytest.raises(BrokerRefused, match="millgate migrate"):
        client.publish([a_message()])
    client.close()


def test_migrate_shows_first_and_then_does(queue: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--broker", database_url(), "--queue", queue]
    assert main(["migrate", "--dry-run", *flags]) == EXIT_FAILED
    shown = capsys.readouterr().out
    assert f'CREATE SCHEMA IF NOT EXISTS "{queue}"' in shown
    assert "CREATE TABLE msg" in shown
    with psycopg.connect(database_url()) as admin:
        assert admin.execute("SELECT to_regnamespace(%s)", [queue]).fetchone() == (None,)
    assert main(["migrate", *flags]) == EXIT_OK
    assert "schema version 1" in capsys.readouterr().out
    assert main(["migrate", "--dry-run", *flags]) == EXIT_OK
    capsys.readouterr()
    assert main(["migrate", "--dry-run", "-o", "json", *flags]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["pending"] == ""
    assert main(["migrate", "-o", "json", *flags]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["changed"] is False
    assert main(["migrate", *flags]) == EXIT_OK


def test_what_migrate_shows_is_what_it_does(queue: str) -> None:
    client = open_queue(queue)
    script = client.pending_migration()
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(script.encode())
    assert client.pending_migration() == ""
    client.publish([a_message()])
    assert len(Hand(client).claim(5)) == 1
    client.close()


def test_migrate_refuses_a_newer_schema_with_its_exit_code(
    broker: PostgresBroker, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(database_url(), autocommit=True) as admin:
        admin.execute(f'UPDATE "{broker.target.schema}".meta SET version = 99')
    assert main(["migrate", "--broker", database_url(), "--queue", queue]) == EXIT_BROKER
    assert "version 99" in capsys.readouterr().err


def test_queues_of_one_database_know_nothing_of_each_other(broker: PostgresBroker) -> None:
    other = open_queue(fresh_queue())
    other.setup()
    broker.publish([a_message()])
    assert Hand(other).claim(5) == []
    other.close()
