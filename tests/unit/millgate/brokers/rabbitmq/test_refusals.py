"""The driver's and the server's errors → errors that say what to do, and whether the call is worth repeating."""

from __future__ import annotations

import ssl

import pytest
from pika import exceptions
from pika.adapters.utils.connection_workflow import AMQPConnectorStackTimeout

from millgate.brokers.rabbitmq.refusals import absent, closed, connecting, naming
from millgate.errors import (
    AuthFailed,
    BrokerError,
    BrokerRefused,
    BrokerTimeout,
    BrokerUnavailable,
    ForeignPeer,
    PermissionMissing,
    TLSFailed,
)

_CLOSED = "ConnectionClosedByBroker: (%d) %r"
_LOST = "StreamLostError: ('Transport indicated EOF',)"


def _said(code: int, text: str) -> exceptions.ConnectionClosedByBroker:
    return exceptions.ConnectionClosedByBroker(code, text)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (exceptions.ProbableAuthenticationError(_CLOSED % (403, "")), AuthFailed, "credentials"),
        (exceptions.ProbableAccessDeniedError(_CLOSED % (530, "")), BrokerRefused, "add_vhost"),
        (exceptions.IncompatibleProtocolError("('x',)"), ForeignPeer, "does not speak AMQP"),
        (_said(530, "NOT_ALLOWED - vhost v not found"), BrokerRefused, "add_vhost"),
        (_said(403, "ACCESS_REFUSED - access to vhost 'v' refused"), BrokerRefused, "add_vhost"),
        (ssl.SSLError("no"), TLSFailed, "TLS"),
        (exceptions.AMQPConnectionError(ssl.SSLError("no")), TLSFailed, "TLS"),
        (AMQPConnectorStackTimeout(), BrokerTimeout, "did not answer"),
        (ConnectionRefusedError("no"), BrokerUnavailable, "no connection"),
    ],
)
def test_why_no_connection_came_about_is_said(
    error: Exception, kind: type[Exception], says: str
) -> None:
    found = connecting(error, "amqp://h")
    assert type(found) is kind
    assert says in str(found)
    assert str(found).startswith("amqp://h: ")


@pytest.mark.parametrize(
    "guess",
    [
        exceptions.IncompatibleProtocolError,
        exceptions.ProbableAuthenticationError,
        exceptions.ProbableAccessDeniedError,
    ],
)
def test_a_connection_that_merely_broke_is_worth_another_attempt(guess: type[Exception]) -> None:
    assert type(connecting(guess(_LOST), "amqp://h")) is BrokerUnavailable


def test_a_server_that_takes_no_messages_of_our_size_is_told_what_to_take() -> None:
    text = "PRECONDITION_FAILED - message size 1600623 is larger than configured max size 1000000"
    found = closed(exceptions.ChannelClosedByBroker(406, text), "amqp://h")
    assert type(found) is BrokerRefused
    assert "max_message_size" in str(found)


@pytest.mark.parametrize("right", ["configure", "write", "read"])
def test_a_missing_right_is_named_with_what_it_is_missing_on(right: str) -> None:
    text = f"ACCESS_REFUSED - {right} access to queue 'millgate.q.head' in vhost '/' refused"
    found = closed(exceptions.ChannelClosedByBroker(403, text), "amqp://h")
    assert isinstance(found, PermissionMissing)
    assert f"{right} on millgate.q.head" in str(found)


def test_a_right_that_the_server_does_not_name_is_named_by_what_was_asked() -> None:
    text = "ACCESS_REFUSED - access to queue 'millgate.q.head' in vhost '/' refused for user 'u'"
    error = naming("read", exceptions.ChannelClosedByBroker(403, text))
    assert "lacks read on millgate.q.head" in str(closed(error, "amqp://h"))
    assert naming("configure", error) is error, "the server's own word stays"


def test_of_an_exchange_writing_is_what_was_refused() -> None:
    text = "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'u'"
    found = closed(exceptions.ChannelClosedByBroker(403, text), "amqp://h")
    assert isinstance(found, PermissionMissing)
    assert "lacks write on amq.default" in str(found)


def test_a_name_of_ours_that_is_somebody_elses_is_said_so() -> None:
    text = "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'millgate.q.head'"
    found = closed(exceptions.ChannelClosedByBroker(406, text), "amqp://h")
    assert isinstance(found, ForeignPeer)
    assert "millgate.q.head" in str(found)


def test_what_is_not_known_keeps_the_servers_words() -> None:
    found = closed(exceptions.ChannelClosedByBroker(504, "CHANNEL_ERROR - odd"), "amqp://h")
    assert type(found) is BrokerError
    assert "odd" in str(found)
    lost = closed(exceptions.StreamLostError("gone"), "amqp://h")
    assert type(lost) is BrokerUnavailable


def test_a_queue_that_a_starting_server_has_not_found_yet_is_not_taken_for_a_missing_one() -> None:
    text = (
        "NOT_FOUND - home node 'rabbit@h' of durable queue 'q' in vhost '/' is down or inaccessible"
    )
    yet = exceptions.ChannelClosedByBroker(404, text)
    assert not absent(yet)
    assert type(closed(yet, "amqp://h")) is BrokerUnavailable
    missing = exceptions.ChannelClosedByBroker(404, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert absent(missing)
    assert type(closed(missing, "amqp://h")) is BrokerError


def test_a_stream_whose_replica_does_not_run_here_now_is_waited_for_and_nobody_told_to_delete_it() -> (
    None
):
    text = (
        "PRECONDITION_FAILED - stream queue 'millgate.q.journal.1.1' in vhost '/' does not have a running replica"
        " on the local node"
    )
    found = closed(exceptions.ChannelClosedByBroker(406, text), "amqp://h")
    assert type(found) is BrokerUnavailable
    assert "delete" not in str(found)
    assert "running replica" in str(found)
