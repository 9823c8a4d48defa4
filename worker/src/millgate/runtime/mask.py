"""Keeps the broker's credentials out of what a worker says: its log, and the failures that it reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from millgate.outcome import Failure

_MASKED: Final = "***"
#: A password in a URL of any kind: what lies between the user's colon and the host.
_IN_URL: Final = re.compile(r"(://[^\s:/?#@]*:)[^\s/?#]+@")
#: Options of a URL whose value is a secret.
_SECRET: Final = re.compile("password|passwd|secret|token", re.IGNORECASE)
#: Variables that a broker reads a URL or a password from.
_URLS: Final = ("MILLGATE_BROKER",)
_PASSWORDS: Final = ("PGPASSWORD",)
#: Characters; what is shorter is found in many words, and masked within URLs only.
_SHORTEST: Final = 6
#: Secrets that are remembered: passwords that were rotated may still be spoken of.
_MOST: Final = 24


class Mask:
    """Thread-safe: what it knows is replaced as a whole."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """`environ`: the variables that the broker was opened with."""
        self._known: dict[str, None] = {}  # the newest last
        self._secrets: tuple[str, ...] = ()
        environ = environ or {}
        for name in _URLS:
            self.learn(environ.get(name, ""))
        self._add(_forms(environ.get(name, "") for name in _PASSWORDS))

    def learn(self, url: str) -> None:
        """The broker's URL, or its newest one."""
        self._add(secrets_of(url))

    def text(self, text: str) -> str:
        """The text without what is known to be secret, and without passwords of any URL."""
        if "://" in text:
            text = _IN_URL.sub(rf"\1{_MASKED}@", text)
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, _MASKED)
        return text

    def failure(self, failure: Failure) -> Failure:
        """The failure with all its texts masked; itself, if nothing in it is secret."""
        texts = (failure.error, failure.message, failure.traceback)
        masked = tuple(map(self.text, texts))
        if masked == texts:
            return failure
        error, message, traceback = masked
        return replace(failure, error=error, message=message, traceback=traceback)

    def _add(self, secrets: Iterable[str]) -> None:
        new = dict.fromkeys(secrets)
        known = [secret for secret in self._known if secret not in new]
        self._known = dict.fromkeys([*known, *new][-_MOST:])
        # the longest first: one may be a part of another
        self._secrets = tuple(sorted(self._known, key=len, reverse=True))


def secrets_of(url: str) -> list[str]:
    """What is secret of a broker's URL, as it is written there and as it is meant. Pure.

    A password that is also the user's name, a host's or another part that is no secret, is none.
    """
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query)
    except ValueError:  # such a URL opens no broker, and is shown nowhere
        return []
    userinfo, _, place = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    public = {parts.scheme, user, unquote(user), *re.split(r"[/,:]", f"{place}{parts.path}")}
    public |= {value for name, value in options if not _SECRET.search(name)}
    values = [password, *(value for name, value in options if _SECRET.search(name))]
    return [secret for secret in _forms(values) if secret not in public]


def _forms(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        meant = unquote(value)
        for form in dict.fromkeys((value, meant, quote(meant, safe=""))):
            if len(form) >= _SHORTEST:
                yield form
