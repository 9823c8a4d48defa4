"""The parts of a server's URL that several brokers write alike: addresses, options, TLS. Pure."""

from __future__ import annotations

import ssl
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from millgate.errors import InvalidSettings


class Address(NamedTuple):
    """One server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def split(url: str, scheme: str) -> SplitResult:
    """The URL's parts. A password that is not quoted may have got into any of them: none is shown then.
    Raises InvalidSettings."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or "@" in parts.path + parts.query:
        raise InvalidSettings(
            f"{scheme}://: this URL cannot be taken apart; in a user's name, a password, a path or a value write each"
            " of / ? # @ : [ ] % as %2F %3F %23 %40 %3A %5B %5D %25"
        ) from None
    return parts


def read(text: str, port: int, scheme: str) -> Address:
    """The address that a host stands for, which may name another port. Raises InvalidSettings."""
    try:
        parts = urlsplit(f"//{text}")
        return Address(parts.hostname or "localhost", parts.port or port)
    except ValueError as error:
        raise InvalidSettings(f"{scheme}://: host {text!r}: {error}") from None


def options(query: str, known: Collection[str], scheme: str) -> dict[str, str]:
    """The options of a query. Raises InvalidSettings for one that is not known."""
    found = dict(parse_qsl(query, keep_blank_values=True))
    for name in found:
        if name not in known:
            raise InvalidSettings(
                f"{scheme}://: unknown ?{name}; known are {', '.join(sorted(known))}"
            )
    return found


def insecure(fragment: str, scheme: str) -> bool:
    """Whether a URL ends in `#insecure`. Raises InvalidSettings for any other end of that kind."""
    if fragment not in ("", "insecure"):
        raise InvalidSettings(
            f"{scheme}://: '#' has a meaning in URLs; write it %23 in a password, or use #insecure at the end"
        )
    return fragment == "insecure"


def tls(
    given: Mapping[str, str], environ: Mapping[str, str], scheme: str, *, verified: bool
) -> ssl.SSLContext:
    """TLS by the options `ca`, `cert` and `key` (files) and the variable SSL_CERT_FILE. Raises InvalidSettings."""
    authorities = given.get("ca") or environ.get("SSL_CERT_FILE") or None
    try:
        context = ssl.create_default_context(cafile=authorities)
        if "cert" in given:
            context.load_cert_chain(given["cert"], given.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise InvalidSettings(
            f"{scheme}://: the CA or certificate cannot be read: {error}"
        ) from None
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
