"""The server's words → errors that say what to do, and whether the call is worth repeating."""

from __future__ import annotations

import re

import pytest

from millgate.brokers.redis.refusals import judge
from millgate.errors import (
    AuthFailed,
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    MillgateError,
    PayloadTooLarge,
    PermissionMissing,
    QueueFull,
    TopicUndeclared,
    UnsafeServer,
)

_OOM = "command not allowed when used memory > 'maxmemory'."


@pytest.mark.parametrize(
    ("text", "kind", "says", "again"),
    [
        ("LOADING Redis is loading the dataset in memory", BrokerUnavailable, "loading", True),
        ("BUSY Redis is busy running a script.", BrokerUnavailable, "SCRIPT KILL", True),
        ("TRYAGAIN Multiple keys request", BrokerUnavailable, "moving", True),
        ("ASK 3999 127.0.0.1:6381", BrokerUnavailable, "moving", True),
        ("MOVED 3999 127.0.0.1:6381", BrokerUnavailable, "moved", True),
        ("CLUSTERDOWN The cluster is down", BrokerUnavailable, "slots", True),
        ("NOREPLICAS Not enough good replicas", BrokerUnavailable, "min-replicas", True),
        ("MISCONF Redis is configured to save", BrokerUnavailable, "snapshot", True),
        ("READONLY You can't write", UnsafeServer, "master", True),
        (f"OOM {_OOM}", QueueFull, "maxmemory", False),
        (f"ERR Error running script: -OOM {_OOM}", QueueFull, "maxmemory", False),
        ("WRONGPASS invalid username-password pair", AuthFailed, "credentials", False),
        ("NOAUTH Authentication required.", AuthFailed, "password", False),
        ("ERR invalid password", AuthFailed, "credentials", False),
        ("WRONGTYPE Operation against a key", BrokerRefused, "another kind", False),
        (
            "NOPERM User mill has no permissions to run the 'evalsha' command",
            PermissionMissing,
            r"\+evalsha",
            False,
        ),
        ("NOPERM No permissions to access a key", PermissionMissing, "~mg:", False),
        (
            "ERR The user executing the script can't run this command or subcommand",
            PermissionMissing,
            r"setup\(\)",
            False,
        ),
        (
            "ERR ACL failure in script: User mill has no permissions to run the 'hset' command",
            PermissionMissing,
            r"\+hset",
            False,
        ),
        ("ERR DB index is out of range", BrokerRefused, "database", False),
        ("MGFULL the queue holds 5 of at most 5", QueueFull, "holds 5", False),
        ("MGSIZE m1: 9 bytes, topic 't' takes 5", PayloadTooLarge, "reference", False),
        ("ERR MGUNDECLARED strange", TopicUndeclared, "strange", False),
        ("ERR something new", BrokerError, "something new", False),
    ],
)
def test_an_error_is_told_in_our_words(
    text: str, kind: type[MillgateError], says: str, again: bool
) -> None:
    verdict = judge(text, "redis://h", "publish")
    assert type(verdict.error) is kind
    assert verdict.again is again
    assert re.search(says, str(verdict.error))
