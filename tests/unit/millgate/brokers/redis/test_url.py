"""URLs → where the servers are; what cannot be meant is refused."""

from __future__ import annotations

import ssl

import pytest

from millgate.brokers.address import Address
from millgate.brokers.redis.url import Login, parse
from millgate.errors import InvalidSettings


def test_every_key_of_a_queue_has_the_same_hash_tag() -> None:
    assert parse("redis://localhost", "shop.mail", {}).prefix == "mg:{shop.mail}:"


def test_what_is_left_out_has_defaults() -> None:
    target = parse("redis://", "q", {})
    assert target.addresses == (Address("localhost", 6379),)
    assert (target.database, target.login, target.tls) == (0, Login(), None)


def test_users_passwords_and_databases_are_read() -> None:
    target = parse("redis://us%3Aer:p%40ss%2Fw%25@redis.example:7000/3", "q", {})
    assert target.login == Login("us:er", "p@ss/w%")
    assert (target.addresses, target.database) == ((Address("redis.example", 7000),), 3)
    assert "p@ss" not in repr(target)
    assert "p%40ss" not in target.endpoint
    assert parse("redis://:only@h", "q", {}).login == Login("", "only")


def test_several_hosts_and_ipv6_are_read() -> None:
    target = parse("redis://a:1,b,[::1]:3?cluster=1", "q", {})
    assert target.addresses == (Address("a", 1), Address("b", 6379), Address("::1", 3))
    assert target.cluster
    assert str(target.addresses[2]) == "[::1]:3"


def test_sentinels_name_a_master_and_have_a_login_of_their_own() -> None:
    url = "redis+sentinel://u:p@s1,s2:26380/mymaster/2?sentinel_password=sp"
    target = parse(url, "q", {})
    assert target.addresses == (Address("s1", 26379), Address("s2", 26380))
    assert (target.master, target.database) == ("mymaster", 2)
    assert (target.login, target.sentinel_login) == (Login("u", "p"), Login("", "sp"))
    assert target.tls is None


def test_tls_verifies_unless_the_url_says_not_to() -> None:
    verified = parse("rediss://h", "q", {}).tls
    assert verified is not None
    assert verified.check_hostname
    assert verified.verify_mode is ssl.CERT_REQUIRED
    insecure = parse("rediss://h#insecure", "q", {}).tls
    assert insecure is not None
    assert insecure.verify_mode is ssl.CERT_NONE
    assert parse("redis+sentinel://h/m?tls=1", "q", {}).tls is not None


@pytest.mark.parametrize(
    "url",
    [
        "redis://h/one",
        "redis://h/1/2",
        "redis://h?colour=red",
        "redis://h?cluster=perhaps",
        "redis://h/1?cluster=1",
        "redis://h?replicas=-1",
        "redis://h:nine",
        "redis://h#fragment",
        "redis+sentinel://h",
        "redis+sentinel://h/m?cluster=1",
        "rediss://h?ca=/nowhere/ca.pem",
    ],
)
def test_what_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings, match="redis"):
        parse(url, "q", {})


@pytest.mark.parametrize(
    "password",
    ["s3/cret", "s3?cret", "s3#cret", "s3[cret", "6379/cret", "s3\u2100cret", "/cret", "?cret"],
)
@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+sentinel"])
def test_a_password_that_is_not_quoted_is_refused_and_no_part_of_it_shown(
    scheme: str, password: str
) -> None:
    with pytest.raises(InvalidSettings, match="%23") as caught:
        parse(f"{scheme}://user:{password}@host/0", "q", {})
    assert "cret" not in str(caught.value)
    assert "s3" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
