"""URLs → where the servers are; what cannot be meant is refused."""

from __future__ import annotations

import ssl

import pytest

from millgate.brokers.rabbitmq.url import Address, parse
from millgate.errors import InvalidSettings


def test_what_is_left_out_has_defaults() -> None:
    target = parse("amqp://", {})
    assert target.addresses == (Address("localhost", 5672),)
    assert (target.user, target.password, target.vhost) == ("guest", "guest", "/")
    assert (target.tls, target.heartbeat) == (None, 10)


def test_users_passwords_and_virtual_hosts_are_read() -> None:
    target = parse("amqp://us%3Aer:p%40ss%2Fw%25@rabbit.example:7000/a%2Fb", {})
    assert (target.user, target.password, target.vhost) == ("us:er", "p@ss/w%", "a/b")
    assert target.addresses == (Address("rabbit.example", 7000),)


def test_no_password_is_shown() -> None:
    target = parse("amqp://user:s3cret@h/v", {})
    assert "s3cret" not in repr(target)
    assert "s3cret" not in target.endpoint


def test_an_empty_password_is_one() -> None:
    assert parse("amqp://user:@h", {}).password == ""


@pytest.mark.parametrize("path", ["", "/", "/%2F", "/%2f"])
def test_the_default_virtual_host_has_several_spellings(path: str) -> None:
    assert parse(f"amqp://h{path}", {}).vhost == "/"


def test_several_nodes_and_ipv6_are_read() -> None:
    target = parse("amqp://u:p@a:1,b,[::1]:3/v", {})
    assert target.addresses == (Address("a", 1), Address("b", 5672), Address("::1", 3))
    assert str(target.addresses[2]) == "[::1]:3"


def test_tls_verifies_unless_told_otherwise() -> None:
    safe, unsafe = parse("amqps://h", {}).tls, parse("amqps://h#insecure", {}).tls
    assert safe is not None
    assert unsafe is not None
    assert (safe.verify_mode, safe.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (unsafe.verify_mode, unsafe.check_hostname) == (ssl.CERT_NONE, False)
    assert parse("amqps://h", {}).addresses[0].port == 5671


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("amqp://u:p#w@h", "%23"),
        ("amqp://h?hearbeat=3", r"unknown \?hearbeat"),
        ("amqp://h?heartbeat=0", "1 to 3600"),
        ("amqp://h?heartbeat=5s", "1 to 3600"),
        ("amqp://h?heartbeat=\u0665", "1 to 3600"),
        ("amqp://h?brokerd=always", "auto or never"),
        ("amqp://h/a/b", "%2F"),
        ("amqp://h:port/v", "host"),
        ("amqps://h?ca=/nowhere/ca.crt", "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(url: str, says: str) -> None:
    with pytest.raises(InvalidSettings, match=says):
        parse(url, {})
