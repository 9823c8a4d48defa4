"""What is secret of a broker, and that nothing of it is said."""

from __future__ import annotations

import json
import os

import pytest

from millgate.clock import SystemClock
from millgate.outcome import Failure
from millgate.runtime.logs import Journal
from millgate.runtime.mask import Mask, secrets_of


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("postgresql://app:s3cret-word@db:5432/app", {"s3cret-word"}),
        ("redis://:s3cret%2Fword@h/0", {"s3cret%2Fword", "s3cret/word"}),
        ("amqp://u:it's%20me@h/v", {"it's%20me", "it's me", "it%27s%20me"}),
        ("postgresql://h/db?user=u&password=s3cret-word", {"s3cret-word"}),
        ("postgresql://h/db?sslpassword=s3cret-word&sslmode=require", {"s3cret-word"}),
        ("local:///run/millgate.sock", set()),
        ("amqp://guest:guest@h", set()),  # a word that is no secret
        ("postgresql://app:orders@h/orders", set()),
        ("redis://:short@h", set()),  # found in too many words
        ("redis://[::1", set()),
    ],
)
def test_what_is_secret_of_a_url(url: str, secrets: set[str]) -> None:
    assert set(secrets_of(url)) == secrets


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("no postgres://me:pw@db:1/x, sorry", "no postgres://me:***@db:1/x, sorry"),
        ("redis://:p@ss@h and amqps://u:q@h2/v", "redis://:***@h and amqps://u:***@h2/v"),
        ('{"url": "mysql://u:p%2F@h"}', '{"url": "mysql://u:***@h"}'),
        ("http://localhost:8080/users/@me", "http://localhost:8080/users/@me"),
        ("see https://example.com/@me:x", "see https://example.com/@me:x"),
        ("://" + "a" * 50_000, "://" + "a" * 50_000),
    ],
)
def test_the_password_of_any_url_is_masked(text: str, masked: str) -> None:
    assert Mask().text(text) == masked


def test_the_brokers_password_is_masked_wherever_it_is_said() -> None:
    mask = Mask({"PGPASSWORD": "from-the-environment"})
    mask.learn("redis://u:first-password@h")
    mask.learn("redis://u:second-password@h")  # rotated
    text = "first-password, xsecond-passwordx; from-the-environment"
    assert mask.text(text) == "***, x***x; ***"


def test_passwords_that_were_rotated_away_are_remembered_and_the_oldest_forgotten() -> None:
    mask = Mask()
    for number in range(100, 200):
        mask.learn(f"redis://u:password-{number}@h")
    assert mask.text("password-100 password-198 password-199") == "password-100 *** ***"


def test_a_failure_is_masked_in_all_its_parts_and_is_itself_when_there_is_nothing() -> None:
    mask = Mask({"MILLGATE_BROKER": "redis://u:s3cret-word@h"})
    told = Failure("E", "no s3cret-word", "at redis://u:s3cret-word@h")
    assert mask.failure(told) == Failure("E", "no ***", "at redis://u:***@h")
    clean = Failure("E", "m", "t")
    assert mask.failure(clean) is clean


def test_no_line_of_the_log_has_it_in_any_field() -> None:
    reading, writing = os.pipe()
    mask = Mask({"MILLGATE_BROKER": "redis://u:s3cret-word@h"})
    journal = Journal(SystemClock(), json_lines=True, level="info", descriptor=writing, mask=mask)
    secret = "x" * 19_995 + "s3cret-word"  # … is not cut in its middle either
    journal.say("error", "e", text=secret, error="s3cret-word", traceback="a s3cret-word", n=1)
    journal.close()
    os.close(writing)
    with os.fdopen(reading) as text:
        [line] = [json.loads(line) for line in text]
    assert (line["error"], line["traceback"], line["n"]) == ("***", "a ***", 1)
    assert line["text"] == "x" * 19_995 + "***"
