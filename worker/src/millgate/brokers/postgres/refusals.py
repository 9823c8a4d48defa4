"""The driver's errors → Millgate's: each says what happened and what to do; none carries a secret."""

from __future__ import annotations

import re
from typing import Final

import psycopg

from millgate.errors import (
    AuthFailed,
    BrokerError,
    BrokerRefused,
    BrokerTimeout,
    BrokerUnavailable,
    ForeignPeer,
    InvalidInput,
    InvalidMessage,
    MillgateError,
    PayloadTooLarge,
    PermissionMissing,
    QueueFull,
    TLSFailed,
    TopicUndeclared,
    UnsafeServer,
    VersionUnsupported,
)

#: SQLSTATEs of conflicts between calls: the call was undone and may simply be made again.
CONFLICTS: Final = frozenset({"40001", "40P01", "55P03"})

#: What is said of a text that the server cannot hold, and of one that is longer than its indexes take.
NOT_STORABLE: Final = "a text cannot be stored ({}); leave NUL and lone surrogates out"
_TOO_LONG: Final = "a name is too long ({}); use a shorter one"
_NOT_STORABLE: Final = frozenset({"22021", "22P02", "22P05"})
_PASSING: Final = frozenset({"08", "53", "57"})  # connections, resources, an operator at work
_READ_ONLY: Final = (
    "the server is a read-only replica (or set read-only); connect to the primary, "
    "for instance with several hosts in the URL and target_session_attrs=read-write"
)
_SETUP: Final = "the queue's schema is not there, or is older than this program; run `millgate migrate` or call setup()"
_FULL: Final = "the server's disk is full; nothing of this call was stored, make room there"
_MANY: Final = (
    "the server has no connection left; raise max_connections, or put a pooler between (PgBouncer) and add "
    "?pooler=transaction"
)
#: What our own functions raise.
_OURS: Final[dict[str, type[MillgateError]]] = {
    "MG001": PayloadTooLarge,
    "MG002": TopicUndeclared,
    "MG003": QueueFull,
    "MG004": InvalidInput,
    "MG005": InvalidMessage,
}
_BY_STATE: Final[dict[str, tuple[type[MillgateError], str]]] = {
    "25006": (UnsafeServer, _READ_ONLY),
    "3D000": (
        BrokerRefused,
        "the database does not exist; create it, Millgate creates its schema only",
    ),
    "3F000": (BrokerRefused, _SETUP),
    "42P01": (BrokerRefused, _SETUP),
    "42883": (BrokerRefused, _SETUP),
    "53100": (BrokerRefused, _FULL),
    "53300": (BrokerUnavailable, _MANY),
    "57014": (BrokerTimeout, "the server ended a statement that took too long"),
    "0A000": (
        VersionUnsupported,
        "the server lacks what this needs; PostgreSQL 12 or newer is required",
    ),
}
#: Connecting fails without a SQLSTATE; the texts are the server's and libpq's.
_LOGIN: Final = (
    r"password authentication failed|no password supplied|role .* does not exist|not permitted to log in"
    r"|no pg_hba\.conf entry|SASL|authentication failed"
)
_FOREIGN: Final = (
    r"received invalid response to SSL|expected authentication request|invalid response to GSSAPI"
    r"|unsupported frontend protocol|server sent an invalid"
)
_CONNECT: Final = "the user may not connect to the database; GRANT CONNECT ON DATABASE … TO …"
_FULL_HOUSE: Final = (
    "too many clients|remaining connection slots|too many connections|no more connections"
)
_STANDBY: Final = "session is read-only|is in hot standby|server is in hot standby"
_BY_TEXT: Final[tuple[tuple[str, type[MillgateError], str], ...]] = (
    (_LOGIN, AuthFailed, "the server refused the credentials"),
    (_FOREIGN, ForeignPeer, "what listens there is not PostgreSQL"),
    (r"certificate|root\.crt|SSL|TLS", TLSFailed, "TLS failed"),
    (r"database .* does not exist", *_BY_STATE["3D000"]),
    (r"permission denied for database|no CONNECT privilege", PermissionMissing, _CONNECT),
    (_FULL_HOUSE, BrokerUnavailable, _MANY),
    (_STANDBY, UnsafeServer, _READ_ONLY),
    (r"No space left on device", BrokerRefused, _FULL),
)


class Expired(psycopg.OperationalError):
    """No answer within the time for this attempt."""


def translate(error: psycopg.Error, endpoint: str) -> MillgateError:
    """The error to raise for what the driver raised."""
    state, text = error.sqlstate or "", _first_line(error)
    if state in _OURS:
        return _OURS[state](error.diag.message_primary or text)
    if isinstance(error, Expired):
        return BrokerTimeout(
            f"{endpoint} did not answer in time; the call may or may not have taken effect"
        )
    if state in _NOT_STORABLE or (not state and isinstance(error, psycopg.DataError)):
        return InvalidInput(NOT_STORABLE.format(text))
    if state == "54000":
        return InvalidInput(_TOO_LONG.format(text))
    return _by_state(state, text, endpoint) if state else _by_text(text, endpoint)


def _by_state(state: str, text: str, endpoint: str) -> MillgateError:
    if state == "42501":
        return PermissionMissing(f"{endpoint}: {text}; {_grant(text)}")
    if state in _BY_STATE:
        kind, advice = _BY_STATE[state]
        return kind(f"{endpoint}: {advice} ({text})")
    if state[:2] == "28":
        return AuthFailed(f"{endpoint}: the server refused the credentials ({text})")
    if state[:2] in _PASSING or state in CONFLICTS:
        return BrokerUnavailable(f"{endpoint}: {text}")
    return BrokerError(f"{endpoint}: {text} (SQLSTATE {state})")


def _by_text(text: str, endpoint: str) -> MillgateError:
    for pattern, kind, advice in _BY_TEXT:
        if re.search(pattern, text):
            return kind(f"{endpoint}: {advice} ({text})")
    return BrokerUnavailable(f"{endpoint} cannot be reached: {text}")


def _first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # several addresses were tried: the last line says why the last one failed
    return (
        lines[-1]
        if "attempts failed" in lines[0] or "Multiple connection attempts" in lines[0]
        else lines[0]
    )


def _grant(text: str) -> str:
    if match := re.search(r"permission denied for schema (\S+)", text):
        return f"GRANT USAGE ON SCHEMA {match[1]} TO the user, or run `millgate migrate` as the schema's owner"
    if match := re.search(r"permission denied for database (\S+)", text):
        return f"GRANT CREATE ON DATABASE {match[1]} TO the user, or run `millgate migrate` as one who may"
    if match := re.search(r"permission denied for (table|sequence|function) (\S+)", text):
        right = {
            "table": "SELECT, INSERT, UPDATE, DELETE",
            "sequence": "USAGE, SELECT",
            "function": "EXECUTE",
        }[match[1]]
        return f"GRANT {right} ON ALL {match[1].upper()}S IN SCHEMA of the queue TO the user"
    return "GRANT the user what is missing, or run `millgate migrate` as the schema's owner"
