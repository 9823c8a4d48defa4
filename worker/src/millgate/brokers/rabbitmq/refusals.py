"""The driver's and the server's errors → Millgate's: each says what happened and what to do. Pure."""

from __future__ import annotations

import re
import ssl
from typing import Final

from pika import exceptions
from pika.adapters.utils.connection_workflow import AMQPConnectorStackTimeout

from millgate.errors import (
    AuthFailed,
    BrokerError,
    BrokerRefused,
    BrokerTimeout,
    BrokerUnavailable,
    ForeignPeer,
    MillgateError,
    PermissionMissing,
    TLSFailed,
)
from millgate.shortage import of_files

ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
PRECONDITION_FAILED: Final = 406
NOT_ALLOWED: Final = 530
NOT_IMPLEMENTED: Final = 540
#: What a server that has just come up says of queues that it has not found again yet, under the code of missing ones.
_NOT_YET: Final = "is down or inaccessible"
#: What a server says of a queue that is of another kind than the one that was asked for.
_OTHER_KIND: Final = "inequivalent arg"
#: What a server says of a message that is larger than it takes.
_TOO_LARGE: Final = "message size"
#: What the driver calls a connection that ended while it came about.
_GUESSES: Final = (
    exceptions.IncompatibleProtocolError,
    exceptions.ProbableAuthenticationError,
    exceptions.ProbableAccessDeniedError,
)
_STREAM_LOST: Final = exceptions.StreamLostError.__name__
_RIGHT: Final = re.compile(r"(configure|write|read) access to (?:queue|exchange) '([^']*)'")
_RESOURCE: Final = re.compile(r"access to (?:queue|exchange) '([^']*)'")


def connecting(error: BaseException, endpoint: str) -> MillgateError:
    """Why no connection came about."""
    known = _known(error, endpoint)
    if known is not None:
        return known
    inner = _chain(error)[-1]
    said = str(inner) or type(inner).__name__
    return BrokerUnavailable(f"{endpoint}: no connection to RabbitMQ: {said}")


def closed(error: BaseException, endpoint: str) -> MillgateError:
    """Why the server closed a channel or a connection."""
    known = _known(error, endpoint)
    if known is not None:
        return known
    if isinstance(error, exceptions.ChannelClosedByBroker):
        return BrokerError(f"{endpoint}: {error.reply_text}")
    return BrokerUnavailable(f"{endpoint}: the connection was lost: {error}")


def foreign(endpoint: str) -> MillgateError:
    """What listens is something else."""
    return ForeignPeer(f"{endpoint}: what listens there does not speak AMQP 0-9-1")


def absent(error: exceptions.ChannelClosedByBroker) -> bool:
    """Whether the server says that what was named does not exist."""
    return error.reply_code == NOT_FOUND and _NOT_YET not in error.reply_text


def naming(right: str, error: exceptions.ChannelClosedByBroker) -> exceptions.ChannelClosedByBroker:
    """The same error, which names the right that was missing as newer servers do."""
    text = error.reply_text
    if error.reply_code != ACCESS_REFUSED or _RIGHT.search(text):
        return error
    return exceptions.ChannelClosedByBroker(
        ACCESS_REFUSED, text.replace("access", f"{right} access", 1)
    )


def _known(error: BaseException, endpoint: str) -> MillgateError | None:
    for part in _chain(error):
        found = _one(part, endpoint)
        if found is not None:
            return found
        advice = of_files(part) if isinstance(part, OSError) else None
        if advice is not None:
            return BrokerUnavailable(f"{endpoint}: no connection to RabbitMQ: {advice}")
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """An error, and what the driver has wrapped in it."""
    parts: list[BaseException] = []
    at = error
    while len(parts) < 8:
        parts.append(at)
        several = getattr(at, "exceptions", None)  # of a connection tried over several addresses
        inner = several[-1] if several else getattr(at, "exception", None)
        if inner is None and at.args:
            inner = at.args[0]
        if not isinstance(inner, BaseException):
            break
        at = inner
    return parts


def _one(error: BaseException, endpoint: str) -> MillgateError | None:
    if isinstance(error, _GUESSES) and _STREAM_LOST in str(error):
        return None  # a connection that merely broke: the driver guesses from how far it had come
    match error:
        case exceptions.ChannelClosedByBroker() | exceptions.ConnectionClosedByBroker():
            return _code(error.reply_code, error.reply_text, endpoint)
        case exceptions.ProbableAuthenticationError() | exceptions.AuthenticationError():
            return _auth(endpoint, str(error))
        case exceptions.ProbableAccessDeniedError():
            return _vhost(endpoint, str(error))
        case exceptions.IncompatibleProtocolError():
            return foreign(endpoint)
        case ssl.SSLError():
            return TLSFailed(f"{endpoint}: TLS: {error}")
        case (
            exceptions.ConnectionBlockedTimeout()
            | exceptions.ConnectionOpenAborted()  # by the driver itself, once its time is over
            | AMQPConnectorStackTimeout()
            | TimeoutError()
        ):
            return BrokerTimeout(f"{endpoint}: RabbitMQ did not answer in time")
    return None


def _code(code: int, text: str, endpoint: str) -> MillgateError | None:
    if code == ACCESS_REFUSED:
        if "access to vhost" in text:
            return _vhost(endpoint, text)
        return _missing(text, endpoint) if _RESOURCE.search(text) else _auth(endpoint, text)
    if code == NOT_ALLOWED:
        return _vhost(endpoint, text)
    if code == NOT_FOUND and _NOT_YET in text:
        return BrokerUnavailable(f"{endpoint}: RabbitMQ looks for its queues still ({text})")
    if code == PRECONDITION_FAILED:
        return _precondition(endpoint, text)
    if code == NOT_IMPLEMENTED:
        return BrokerRefused(
            f"{endpoint}: the server has no streams; run 'rabbitmqctl enable_feature_flag stream_queue' ({text})"
        )
    return None


def _precondition(endpoint: str, text: str) -> MillgateError:
    if _OTHER_KIND in text:
        return ForeignPeer(
            f"{endpoint}: something else has a name of ours there; delete it, or use another queue name ({text})"
        )
    if _TOO_LARGE in text:
        return BrokerRefused(f"{endpoint}: set max_message_size to 5 MiB or more there ({text})")
    # Most often a node whose replica of a stream does not run now.
    return BrokerUnavailable(f"{endpoint}: RabbitMQ cannot do this now ({text})")


def _auth(endpoint: str, text: str) -> MillgateError:
    return AuthFailed(f"{endpoint}: RabbitMQ refused the credentials ({text})")


def _vhost(endpoint: str, text: str) -> MillgateError:
    return BrokerRefused(
        f"{endpoint}: this virtual host does not exist or the user may not use it; create it"
        f" (rabbitmqctl add_vhost, set_permissions) or correct the URL's path ({text})"
    )


def _missing(text: str, endpoint: str) -> MillgateError:
    right = _RIGHT.search(text)
    named = _RESOURCE.search(text)
    # Of an exchange nothing but writing is asked.
    what = f"{right[1]} on {right[2]}" if right else f"write on {named[1] if named else ''}"
    return PermissionMissing(
        f"{endpoint}: the user lacks {what}; grant configure, write and read on"
        f" '^(millgate\\..*|amq\\.default)$' with rabbitmqctl set_permissions ({text})"
    )
