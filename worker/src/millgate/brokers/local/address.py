"""Where a local broker is: its URL read into a value, and the places that it uses when the URL names none."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from millgate.brokers.served.folders import runtime_folder
from millgate.errors import InvalidInput, InvalidSettings
from millgate.frozen import dataclass
from millgate.limits import parse_duration

DEFAULT_PORT: Final = 7411
PROBE_TIMEOUT: Final = 5.0
LONGEST_PATH: Final = 107  # bytes that the kernel takes for the name of a Unix socket
_OPTIONS: Final = {"key_file", "journal", "data", "die_with_parent", "tls", "ca"}
_LONGEST_PROBE: Final = 3600.0
_LOOPBACK: Final = re.compile(r"^(localhost|::1|127(\.\d{1,3}){3})$")
_SWITCH: Final = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Place:
    """What somebody listens on: a Unix socket's path, or a host and a port."""

    path: Path | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.path is not None:
            return str(self.path)
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def here(self) -> bool:
        """Whether this machine, and only it, can be meant: only there may a server be started by itself."""
        return self.path is not None or _LOOPBACK.match(self.host) is not None

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read "/run/x.sock" or "host:port". Raises InvalidSettings."""
        if text.startswith("/"):
            if len(os.fsencode(text)) > LONGEST_PATH:
                raise InvalidSettings(
                    f"{text}: the path of a socket has at most {LONGEST_PATH} bytes; use a shorter one"
                )
            return cls(path=Path(text))
        try:
            parts = urlsplit(f"//{text}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise InvalidSettings(f"{text!r}: {error}") from error
        if not host or parts.username is not None or parts.path:
            # Whoever writes a password here must not find it in a log.
            shown = text.rpartition("@")[2]
            raise InvalidSettings(f"{shown!r}: write an absolute path, or host:port")
        return cls(host=host, port=DEFAULT_PORT if port is None else port)


@dataclass(frozen=True, slots=True)
class Address:
    """All that a `local://` URL says, completed."""

    place: Place
    key_file: Path
    private_key: bool  # nobody named the file: it is this user's own, and must be closed to others
    data: Path
    runtime: Path  # this user's folder on this host
    journal: bool = True
    die_with_parent: bool = False
    tls: bool = False
    ca: Path | None = None  # None: the system's
    verify: bool = True
    probe_timeout: float = PROBE_TIMEOUT

    @property
    def starts(self) -> bool:
        """Whether `setup` starts a server here when nobody listens."""
        return self.place.here and not self.tls


def parse(url: str, environ: Mapping[str, str]) -> Address:
    """Read `local://`, `local:///path.sock` or `local://host:port`, with options. Raises InvalidSettings."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidSettings(f"broker URL: {error}") from error
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise InvalidSettings(
            f"broker URL: unknown option {unknown[0]!r}; a local broker takes {', '.join(sorted(_OPTIONS))}"
        )
    if parts.fragment not in ("", "insecure"):
        raise InvalidSettings(f"broker URL: #{parts.fragment} means nothing; only #insecure does")
    place = _place(parts.netloc, parts.path, environ)
    named = options.get("key_file") or environ.get("MILLGATE_LOCAL_KEY_FILE", "")
    return Address(
        place=place,
        key_file=Path(named) if named else runtime_folder(environ) / "key",
        private_key=not named,
        data=Path(options["data"]) if options.get("data") else data_folder(place, environ),
        runtime=runtime_folder(environ),
        journal=_switch(options, "journal", True),
        die_with_parent=_switch(options, "die_with_parent", False),
        tls=_switch(options, "tls", "ca" in options),
        ca=Path(options["ca"]) if options.get("ca") else None,
        verify=parts.fragment != "insecure",
        probe_timeout=probe_timeout(environ),
    )


def default_place(environ: Mapping[str, str]) -> Place:
    """The socket of this user on this host."""
    return Place.parse(str(runtime_folder(environ) / "brokerd.sock"))


def data_folder(place: Place, environ: Mapping[str, str]) -> Path:
    """Where the broker at `place` keeps its journal when nobody says where."""
    if place.path is not None and place != default_place(environ):
        return place.path.with_name(place.path.name + ".data")
    name = "default" if place.path is not None else f"port-{place.port}"
    home, state = environ.get("HOME", ""), environ.get("XDG_STATE_HOME", "")
    if not home and not state:
        return runtime_folder(environ) / name
    base = Path(state) if state else Path(home) / ".local" / "state"
    # The host is part of the path: homes are shared by network, and a broker is not.
    return base / "millgate" / socket.gethostname() / name


def probe_timeout(environ: Mapping[str, str]) -> float:
    """Seconds that a peer may take to say who it is. Raises InvalidSettings."""
    try:
        seconds = parse_duration(_seconds(environ.get("MILLGATE_PROBE_TIMEOUT", "")))
    except InvalidInput as error:
        raise InvalidSettings(f"MILLGATE_PROBE_TIMEOUT: {error}") from error
    if not 0 < seconds < _LONGEST_PROBE:  # NaN is refused too
        raise InvalidSettings(
            f"MILLGATE_PROBE_TIMEOUT: more than 0s, less than {_LONGEST_PROBE:g}s"
        )
    return seconds


def _place(netloc: str, path: str, environ: Mapping[str, str]) -> Place:
    if netloc and path not in ("", "/"):
        raise InvalidSettings(
            "broker URL: local:// takes a path (three slashes) or host:port, not both"
        )
    if netloc:
        return Place.parse(netloc)
    return Place.parse(path) if path not in ("", "/") else default_place(environ)


def _switch(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text not in _SWITCH:
        raise InvalidSettings(f"broker URL: {name} is 'on' or 'off', not {text!r}")
    return _SWITCH[text]


def _seconds(text: str) -> str | float:
    if not text:
        return PROBE_TIMEOUT
    try:
        return float(text)  # a bare number is seconds
    except ValueError:
        return text
