"""What single sends set over what their task says: `task.options(…)`, checked where it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime

from millgate.errors import InvalidInput
from millgate.frozen import dataclass
from millgate.hints import Any, Final, TypedDict
from millgate.limits import parse_duration
from millgate.message import NO_OPTIONS, Options
from millgate.retry import Backoff
from millgate.spec import Duration, TaskSpec, check_timeouts, check_topic, limits


class SendSettings(TypedDict, total=False):
    """What `task.options` takes: for single sends, over what the task and its topic say. Durations as in the task."""

    topic: str
    task_id: str  # the same id again stores nothing: an idempotency key
    delay: Duration
    at: datetime  # aware
    expires: Duration
    unique: bool | str
    unique_for: Duration
    key: str
    priority: int
    result_ttl: Duration
    timeout: Duration
    soft_timeout: Duration
    retries: int
    backoff: Backoff | Mapping[str, Any] | str
    headers: Mapping[str, str]
    connection: Any  # a database connection: sent when its transaction commits


@dataclass(frozen=True, slots=True)
class Sending:
    """What single sends set; None is left to the task."""

    topic: str | None = None
    task_id: str | None = None
    delay: float | None = None
    at: float | None = None
    unique: bool | str | None = None
    key: str | None = None
    priority: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    connection: Any = None
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> Options:
        """The part that travels to the worker."""
        own = {name: self.limits[name] for name in Options.__slots__ if name in self.limits}
        return Options(**own) if own else NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Standing:
    """What all messages of one task that are sent with the same settings have in common, found once."""

    topic: str
    priority: int
    expires: float | None
    unique_for: float | None
    result_ttl: float | None
    options: Options
    #: Whether the arguments are needed by name: a key or a unique text is computed from them.
    computed: bool

    @classmethod
    def of(cls, spec: TaskSpec, sending: Sending) -> Standing:
        """What the send says, else the task."""
        own = sending.limits
        return cls(
            topic=sending.topic or spec.topic,
            priority=spec.priority if sending.priority is None else sending.priority,
            expires=own.get("expires", spec.expires),
            unique_for=own.get("unique_for", spec.unique_for),
            result_ttl=own.get("result_ttl", spec.result_ttl),
            options=sending.options,
            computed=bool(spec.key or spec.unique or sending.unique),
        )


_KNOWN: Final = frozenset(SendSettings.__annotations__)


def parse(base: Sending, settings: SendSettings) -> Sending:
    """`base`, with what `task.options(**settings)` says over it. Raises InvalidInput, naming the setting."""
    unknown = set(settings) - _KNOWN
    if unknown:
        raise InvalidInput(
            f"options knows no {', '.join(sorted(unknown))}; it takes {', '.join(sorted(_KNOWN))}"
        )
    fields: dict[str, Any] = {
        name: value for name, value in settings.items() if name in Sending.__slots__
    }
    _check_texts(fields)
    if fields.get("delay") is not None:
        fields["delay"] = parse_duration(fields["delay"])
    if fields.get("at") is not None:
        fields["at"] = _moment(fields["at"])
    merged = {**base.limits, **limits(settings)}
    if merged.get("soft_timeout") is not None and merged.get("hard_timeout") is not None:
        check_timeouts(merged["soft_timeout"], merged["hard_timeout"])
    fields["headers"] = {**base.headers, **_texts(settings.get("headers") or {})}
    return replace(base, **fields, limits=merged)


def _check_texts(fields: Mapping[str, Any]) -> None:
    for name in ("topic", "task_id", "key"):
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise InvalidInput(f"{name}={value!r}: give a text, for example str({value!r})")
        if value == "":
            raise InvalidInput(f"{name} is empty; leave it out or give one")
    if fields.get("topic") is not None:
        check_topic(fields["topic"])


def _moment(at: Any) -> float:
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InvalidInput(
            f"{at!r} is no moment: give an aware datetime, e.g. datetime.now(UTC) + timedelta(hours=1)"
        )
    return at.timestamp()


def _texts(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(f"header {name!r}: headers are texts, {value!r} is not")
    return headers
