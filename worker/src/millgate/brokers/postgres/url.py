"""The broker's URL → what the driver needs. Pure: the environment is handed in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from millgate.brokers import address
from millgate.errors import InvalidSettings
from millgate.frozen import dataclass

_SCHEMA: Final = re.compile(r"^[a-z_][a-z0-9_]{0,62}$")
_VERIFYING: Final = ("require", "verify-ca", "verify-full")
_POOLERS: Final = {"transaction": True, "none": False}
#: Where distributions keep the certificates they trust.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a queue lives: libpq's parameters, the schema, and whether a pooler is between (None: find out)."""

    conninfo: str
    extra: Mapping[str, str]
    schema: str
    pooler: bool | None
    endpoint: str  # for people; carries no secret


def parse(url: str, queue: str, environ: Mapping[str, str]) -> Target:
    """The target of a `postgresql://` URL.

    Beside libpq's own parameters the query may have `schema` (else the queue's name, with `.` and `-` as `_`) and
    `pooler` (`transaction` or `none`, else it is found out). TLS that is asked for verifies chain and host name;
    `#insecure` leaves `require` unverified. Raises InvalidSettings.
    """
    text, hash_, fragment = url.rpartition("#")
    if not hash_ or fragment != "insecure":
        text, fragment = url, ""
    parts = address.split(_quoted(text), "postgresql")
    if parts.fragment:
        raise InvalidSettings(
            "postgresql://: '#' has a meaning in URLs; write it %23 in a password, or use #insecure at the end"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", "") or schema_of(queue)
    if not _SCHEMA.match(schema):
        raise InvalidSettings(f"?schema={schema}: use 1 to 63 of a-z, 0-9 and '_', no digit first")
    pooler = _pooler(options.pop("pooler", "auto"))
    extra = _tls(options, environ, insecure=fragment == "insecure")
    if "," in parts.netloc.rpartition("@")[2] or "," in options.get("host", ""):
        options.setdefault("target_session_attrs", "read-write")  # follow the primary
    conninfo = f"postgresql://{parts.netloc}{parts.path}?{urlencode(options, quote_via=quote)}"
    try:
        conninfo_to_dict(conninfo, **extra)
    except ProgrammingError as error:
        raise InvalidSettings(f"postgresql://: {redacted(str(error), parts.password)}") from None
    return Target(conninfo, extra, schema, pooler, _endpoint(parts.netloc, parts.path, options))


def redacted(text: str, password: str | None) -> str:
    """A text without the password."""
    for secret in filter(None, (password, unquote(password or ""))):
        text = text.replace(secret, "***")
    return text


def schema_of(queue: str) -> str:
    """The schema of a queue: its name, with `.` and `-` as `_`; one that starts with a digit gets `q` in front."""
    name = queue.replace(".", "_").replace("-", "_")
    return f"q{name}"[:63] if name[0].isdigit() else name


def _quoted(url: str) -> str:
    """The URL with a user and password that libpq can read, also when somebody wrote @ : or % as they are."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidSettings(
            "postgresql://: write it like postgresql://user:password@host/database"
        )
    userinfo, at, tail = rest.rpartition("@")
    if not at or "?" in userinfo:
        return url
    user, colon, password = userinfo.partition(":")
    return f"{scheme}://{_requote(user)}{colon}{_requote(password)}@{tail}"


def _requote(text: str) -> str:
    valid = re.fullmatch(r"(?:[^%]|%[0-9A-Fa-f]{2})*", text)
    return quote(unquote(text) if valid else text, safe="")


def _pooler(word: str) -> bool | None:
    if word == "auto":
        return None
    if word not in _POOLERS:
        raise InvalidSettings(f"?pooler={word}: one of auto, transaction, none")
    return _POOLERS[word]


def _tls(options: dict[str, str], environ: Mapping[str, str], *, insecure: bool) -> dict[str, str]:
    """Take TLS out of the options: what is asked for is verified in full, unless the URL says #insecure."""
    mode = options.get("sslmode", environ.get("PGSSLMODE", ""))
    if insecure:
        return {"sslmode": "require"} if mode in _VERIFYING else {}
    if mode not in _VERIFYING:
        return {}
    options.pop("sslmode", None)
    extra = {"sslmode": "verify-full"}
    if "sslrootcert" not in options and "PGSSLROOTCERT" not in environ:
        extra["sslrootcert"] = _authorities(environ)
    return extra


def _authorities(environ: Mapping[str, str]) -> str:
    named = environ.get("SSL_CERT_FILE")
    if named:
        return named
    return next((bundle for bundle in _BUNDLES if Path(bundle).exists()), "system")


def _endpoint(netloc: str, path: str, options: Mapping[str, str]) -> str:
    host = netloc.rpartition("@")[2] or options.get("host", "")
    port = f":{options['port']}" if "port" in options and ":" not in host else ""
    return f"{host or 'localhost'}{port}/{path.lstrip('/')}"
