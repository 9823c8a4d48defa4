"""WorkerSettings ⇄ environment: the contract between whoever starts a worker (operator, a shell) and it.

Every flag of `millgate worker` has its variable; the operator writes variables, people write flags.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from millgate.errors import InvalidInput, InvalidSettings
from millgate.frozen import dataclass
from millgate.limits import Ceiling, format_duration, parse_bytes, parse_duration

PREFIX: Final = "MILLGATE_"
_BROKERS: Final = ("broker", "broker_file")
_BROKER_VARIABLES: Final = ("MILLGATE_BROKER", "MILLGATE_BROKER_FILE")
#: Variables of ours that are no settings of a worker, beside those that belong to a program of their own.
_OTHERS: Final = ("MILLGATE_BROKERD", "MILLGATE_LOCAL_KEY_FILE", "MILLGATE_PROBE_TIMEOUT")
#: How alike two names are when one is taken for the other, misspelt. What Kubernetes adds for Services is further away.
_ALIKE: Final = 0.9
#: What a topic's name is made of, and what a glob has beside that.
_PATTERN: Final = re.compile(r"[A-Za-z0-9._:*?\[\]!-]+\Z")
#: Most processes of one worker that run tasks, and tasks that each runs at once.
MAX_CHILDREN: Final = 256
MAX_SLOTS: Final = 1_000
#: Bytes; whoever writes less has left out the unit.
_LEAST: Final = 2**20
_APP: Final = re.compile(r"[\w.]+:[\w.]+\Z")


def environment() -> Mapping[str, str]:
    """The process environment: the one place that reads it."""
    return os.environ


def variable(setting: str) -> str:
    """The variable by which a setting of a worker is given."""
    return PREFIX + setting.upper()


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How one worker pod works. Times in seconds, memory in bytes or shares."""

    broker: str = ""  # URL
    broker_file: str = ""  # file that holds the URL, re-read on reconnect (a mounted Secret)
    queue: str = "millgate"  # the queue's name on the broker
    app: str = ""  # module:attribute
    name: str = ""  # in the registry; the pod's name, or host-pid
    topics: tuple[str, ...] = ()  # globs; in this order strictly, when `ordered`
    exclude: tuple[str, ...] = ()
    ordered: bool = False
    children: int = 2
    slots: int = 1  # tasks at once in each child
    max_rss: Ceiling | None = None  # of a tree: replaced after the task
    hard_max_rss: Ceiling | None = None  # of a tree: killed
    memory: Ceiling | None = None  # of everything in the pod; None: the container's limit
    max_tasks: int = 0  # of a child, then replaced; 0: no bound
    max_lifetime: float = 0.0  # of a child, then replaced; 0: no bound
    drain_timeout: float = 600.0
    metrics: str = ""  # host:port of /livez /readyz /metrics /status; empty: none
    preload: bool = False  # fork children from a template that has imported the app
    log_format: str = "auto"  # json, text, or auto: text on a terminal
    log_level: str = "info"
    burst: bool = False  # end when nothing is left to do

    def to_env(self) -> dict[str, str]:
        """Variables that make `from_env` answer this value; what equals the default is left out."""
        return {
            variable(field.name): _write(getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    @classmethod
    def from_env(cls, environ: Mapping[str, str], **flags: Any) -> WorkerSettings:
        """Settings from variables, overridden by the flags that are not None (texts or final values).

        The flags `broker` and `broker_file` each take the place of either variable.
        Raises InvalidSettings, naming the variable or flag and what to write.
        """
        values: dict[str, Any] = {}
        if any(flags.get(name) is not None for name in _BROKERS):
            environ = {
                name: text for name, text in environ.items() if name not in _BROKER_VARIABLES
            }
        for field in fields(cls):
            flag, named = flags.get(field.name), variable(field.name)
            source = f"--{field.name.replace('_', '-')}" if flag is not None else named
            raw = flag if flag is not None else environ.get(named)
            if raw is None or (raw == "" and flag is None):
                continue
            if raw == "":  # a shell variable that is not set, and not to be read as "all" or "none"
                raise InvalidSettings(f"{source} is empty: give a value, or leave it out")
            try:
                values[field.name] = _READERS[field.name](raw) if isinstance(raw, str) else raw
            except (InvalidInput, ValueError) as error:
                raise InvalidSettings(f"{source}: {error}") from error
        settings = cls(**values)
        settings.check()
        return settings

    def check(self) -> None:
        """Raise InvalidSettings for values that contradict each other."""
        rules: tuple[tuple[bool, str], ...] = (
            (1 <= self.children <= MAX_CHILDREN, f"--children: 1 to {MAX_CHILDREN}"),
            (1 <= self.slots <= MAX_SLOTS, f"--slots: 1 to {MAX_SLOTS}"),
            (
                not (self.broker and self.broker_file),
                "--broker and --broker-file exclude each other; give one",
            ),
            (
                not self.app or _APP.match(self.app) is not None,
                f"--app: {self.app!r} names no app; write it like package.module:app",
            ),
            (
                _below(self.max_rss, self.hard_max_rss),
                "--max-rss: must be below --hard-max-rss, or it never acts",
            ),
            (
                not (self.ordered and not self.topics),
                "--ordered: needs --topics, whose order it means",
            ),
            (self.log_format in ("auto", "json", "text"), "--log-format: one of auto, json, text"),
            (
                self.log_level in ("debug", "info", "warning", "error"),
                "--log-level: one of debug, info, warning, error",
            ),
            (self.drain_timeout >= 0, "--drain-timeout: not below 0"),
            (self.max_tasks >= 0, "--max-tasks: not below 0"),
            (self.name.isprintable(), "--name: no line breaks or other control characters"),
        )
        for holds, complaint in rules:
            if not holds:
                raise InvalidSettings(complaint)
        for pattern in (*self.topics, *self.exclude):
            if not _PATTERN.match(pattern):
                raise InvalidSettings(
                    f"--topics, --exclude: {pattern!r} fits no topic; write names or globs such as mail.*, with commas"
                )


def misspelt(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that mean nothing to a worker, and the setting that was meant, as it seems."""
    known = [variable(field.name) for field in fields(WorkerSettings)]
    strange = [name for name in environ if name.startswith(PREFIX)]
    strange = [name for name in strange if name not in known and name not in _OTHERS]
    if not strange:
        return {}
    from difflib import get_close_matches  # seldom needed, and the guardian stays small

    near = {name: get_close_matches(name, known, 1, _ALIKE) for name in strange}
    return {name: found[0] for name, found in near.items() if found}


def _below(soft: Ceiling | None, hard: Ceiling | None) -> bool:
    if soft is None or hard is None:
        return True
    if soft.amount is not None and hard.amount is not None:
        return soft.amount < hard.amount
    if soft.share is not None and hard.share is not None:
        return soft.share < hard.share
    return True  # a share and an amount are compared at start, when the container's limit is known


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise InvalidInput(f"{text!r} names no topic")
    return names


def _bool(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise InvalidInput(f"{text!r} is neither true nor false")


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a whole number") from None


def _ceiling(text: str) -> Ceiling:
    if text.endswith("%"):
        return Ceiling.parse(text)
    amount = parse_bytes(text)
    if amount < _LEAST:
        raise InvalidInput(f"{text!r} is less than any process has; write the unit, such as 400Mi")
    return Ceiling(amount=amount)


_READERS: Final[dict[str, Any]] = {
    "topics": _names,
    "exclude": _names,
    "ordered": _bool,
    "preload": _bool,
    "burst": _bool,
    "children": _int,
    "slots": _int,
    "max_tasks": _int,
    "max_rss": _ceiling,
    "hard_max_rss": _ceiling,
    "memory": _ceiling,
    "max_lifetime": parse_duration,
    "drain_timeout": parse_duration,
} | dict.fromkeys(
    ("broker", "broker_file", "queue", "app", "name", "metrics", "log_format", "log_level"), str
)


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return format_duration(value)
    if isinstance(value, Ceiling):
        return f"{value.share * 100:.0f}%" if value.share is not None else str(value.amount)
    return str(value)
