"""The driver's errors → Millgate's."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from millgate.brokers.postgres.refusals import Expired, translate
from millgate.errors import (
    AuthFailed,
    BrokerError,
    BrokerRefused,
    BrokerTimeout,
    BrokerUnavailable,
    ForeignPeer,
    InvalidInput,
    MillgateError,
    PermissionMissing,
    QueueFull,
    TLSFailed,
    UnsafeServer,
)


class Full(psycopg.Error):
    sqlstate = "MG003"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (errors.InvalidPassword("no"), AuthFailed, "credentials"),
        (errors.InvalidCatalogName("no"), BrokerRefused, "create it"),
        (errors.InvalidSchemaName("no"), BrokerRefused, "millgate migrate"),
        (errors.UndefinedFunction("no"), BrokerRefused, "millgate migrate"),
        (errors.ReadOnlySqlTransaction("no"), UnsafeServer, "primary"),
        (errors.TooManyConnections("no"), BrokerUnavailable, "max_connections"),
        (errors.DiskFull("no"), BrokerRefused, "disk is full"),
        (errors.QueryCanceled("no"), BrokerTimeout, "too long"),
        (errors.AdminShutdown("no"), BrokerUnavailable, "no"),
        (errors.DeadlockDetected("no"), BrokerUnavailable, "no"),
        (errors.CharacterNotInRepertoire("no"), InvalidInput, "NUL"),
        (errors.DivisionByZero("no"), BrokerError, "22012"),
        (Full("the queue holds"), QueueFull, "the queue holds"),
        (Expired("late"), BrokerTimeout, "did not answer"),
        (psycopg.DataError("cannot contain NUL"), InvalidInput, "NUL"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_state_says_what_to_do(
    error: psycopg.Error, kind: type[MillgateError], words: str
) -> None:
    made = translate(error, "db:5432/app")
    assert type(made) is kind
    assert words in str(made)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('FATAL:  password authentication failed for user "a"', AuthFailed),
        ('FATAL:  no pg_hba.conf entry for host "1.2.3.4"', AuthFailed),
        ('FATAL:  database "x" does not exist', BrokerRefused),
        ("FATAL:  sorry, too many clients already", BrokerUnavailable),
        ("SSL error: certificate verify failed", TLSFailed),
        ("server does not support SSL, but SSL was required", TLSFailed),
        ("expected authentication request from server, but received H", ForeignPeer),
        ("session is read-only", UnsafeServer),
        ("Connection refused", BrokerUnavailable),
        ("FATAL:  the database system is starting up", BrokerUnavailable),
    ],
)
def test_a_failed_connection_is_read_from_its_text(text: str, kind: type[MillgateError]) -> None:
    assert type(translate(psycopg.OperationalError(text), "db")) is kind


@pytest.mark.parametrize(
    ("text", "grant"),
    [
        ("permission denied for schema q", "GRANT USAGE ON SCHEMA q"),
        ("permission denied for database d", "GRANT CREATE ON DATABASE d"),
        ("permission denied for table msg", "ON ALL TABLES"),
        ("permission denied for sequence seq", "GRANT USAGE, SELECT ON ALL SEQUENCES"),
        ("permission denied for function f", "GRANT EXECUTE ON ALL FUNCTIONS"),
        ("must be owner of x", "millgate migrate"),
    ],
)
def test_missing_rights_name_what_to_grant(text: str, grant: str) -> None:
    made = translate(errors.InsufficientPrivilege(text), "db")
    assert type(made) is PermissionMissing
    assert grant in str(made)
