"""URLs → targets."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from millgate.brokers.postgres.url import parse, schema_of
from millgate.errors import InvalidSettings


@pytest.mark.parametrize(
    ("queue", "schema"),
    [("millgate", "millgate"), ("team-a.video", "team_a_video"), ("7up", "q7up")],
)
def test_a_queue_names_its_schema(queue: str, schema: str) -> None:
    assert schema_of(queue) == schema
    assert parse("postgresql://h/d", queue, {}).schema == schema


def test_the_schema_may_be_given() -> None:
    assert parse("postgres://h/d?schema=other", "q", {}).schema == "other"


@pytest.mark.parametrize("name", ["Upper", "a-b", 'x"; DROP', "1a", "a" * 64])
def test_a_schema_that_would_need_quotes_is_refused(name: str) -> None:
    with pytest.raises(InvalidSettings, match="schema"):
        parse(f"postgresql://h/d?schema={name}", "q", {})


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ("simple", "simple"),
        ("p%40ss%3Aw%2Fo%23rd", "p@ss:w/o#rd"),
        ("p@ss:word", "p@ss:word"),  # as it is
        ("100%sure", "100%sure"),
        ("sp%20ace", "sp ace"),
        ("pa#ss", "pa#ss"),
    ],
)
def test_a_password_arrives_as_it_was_meant(written: str, password: str) -> None:
    target = parse(f"postgresql://me:{written}@host:5433/db", "q", {})
    known = conninfo_to_dict(target.conninfo)
    assert (known["user"], known["password"], known["host"], known["dbname"]) == (
        "me",
        password,
        "host",
        "db",
    )
    assert password not in target.endpoint
    assert target.endpoint == "host:5433/db"


def test_a_socket_folder_is_an_endpoint_too() -> None:
    target = parse("postgresql:///db?host=/run/pg&port=5433", "q", {})
    assert conninfo_to_dict(target.conninfo)["host"] == "/run/pg"
    assert target.endpoint == "/run/pg:5433/db"


@pytest.mark.parametrize(
    ("word", "pooled"), [("auto", None), ("transaction", True), ("none", False)]
)
def test_a_pooler_may_be_named(word: str, pooled: bool | None) -> None:
    assert parse(f"postgresql://h/d?pooler={word}", "q", {}).pooler is pooled


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_tls_that_is_asked_for_is_verified_in_full(mode: str) -> None:
    target = parse(f"postgresql://h/d?sslmode={mode}", "q", {"SSL_CERT_FILE": "/ca.pem"})
    assert target.extra == {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}
    assert "sslmode" not in conninfo_to_dict(target.conninfo)


def test_a_given_authority_wins_over_the_machines() -> None:
    url = "postgresql://h/d?sslmode=require&sslrootcert=/mine.pem"
    target = parse(url, "q", {"SSL_CERT_FILE": "/ca.pem"})
    assert "sslrootcert" not in target.extra
    assert conninfo_to_dict(target.conninfo)["sslrootcert"] == "/mine.pem"


def test_insecure_leaves_the_server_unverified() -> None:
    target = parse("postgresql://h/d?sslmode=verify-full#insecure", "q", {})
    assert target.extra == {"sslmode": "require"}


def test_several_hosts_mean_the_primary() -> None:
    target = parse("postgresql://a,b/d", "q", {})
    assert conninfo_to_dict(target.conninfo)["target_session_attrs"] == "read-write"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:pa%23ss@h/d#secure",
        "postgresql://h/d?pooler=maybe",
        "postgresql://h/d?no_such_option=1",
        "postgresql:h",
    ],
)
def test_what_cannot_be_meant_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        parse(url, "q", {})
    assert "pa#ss" not in str(caught.value)


@pytest.mark.parametrize("password", ["s3?cret", "5432?cret", "?cret", "s3/c?ret", "s3[c?ret"])
def test_a_password_that_hides_where_it_ends_is_refused_and_no_part_of_it_shown(
    password: str,
) -> None:
    with pytest.raises(InvalidSettings, match="%3F") as caught:
        parse(f"postgresql://user:{password}@host/db", "q", {})
    assert "ret" not in str(caught.value)
    assert "s3" not in str(caught.value)


def test_a_password_with_slashes_needs_no_quoting() -> None:
    target = parse("postgresql://user:s3/cret@host/db", "q", {})
    assert conninfo_to_dict(target.conninfo)["password"] == "s3/cret"
    assert target.endpoint == "host/db"
