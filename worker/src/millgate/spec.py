"""What is known of a task besides its function: settings, their wire form, and what they resolve to. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, replace
from datetime import timedelta

from millgate.cron import Misfire, Schedule
from millgate.errors import InvalidInput, NotDecodable
from millgate.frozen import dataclass
from millgate.hints import TYPE_CHECKING, Any, Final, Self, TypedDict
from millgate.limits import parse_duration
from millgate.message import (
    DEFAULT_PRIORITY,
    DEFAULT_TOPIC,
    LONGEST,
    PRIORITIES,
    TOPIC_NAME,
    Message,
    Options,
)
from millgate.retry import Backoff, BackoffType, Jitter, RetryPolicy

if TYPE_CHECKING:
    from millgate.inject import Dependency
    from millgate.queues import TopicPolicy

TASK_NAME: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_.:-]{0,99}\Z")

#: A text computed from the arguments: a template ("{user_id}") or a function of the same arguments.
Rule = str | Callable[..., str | None]


#: Seconds, a text like "90s" or "1h30m", or a timedelta.
Duration = float | str | timedelta


class TaskSettings(TypedDict, total=False):
    """What `@app.task` takes. What is left out is left to the topic."""

    name: str  # default: module.function
    topic: str
    retries: int  # attempts after the first
    backoff: Backoff | Mapping[str, Any] | str  # a Backoff, its fields, or Exponential, Fixed, None
    timeout: Duration  # hard: the child is killed
    soft_timeout: Duration  # SoftTimeout is raised in the task
    expires: Duration  # not started by then: buried as Expired
    unique: bool | Rule  # True: by the arguments
    unique_for: Duration  # from acceptance; without it, until the task has ended
    key: Rule  # what a topic's limit per key counts
    priority: int  # within the topic, 0 to 9, 9 first
    result_ttl: Duration  # 0: keep no result
    cron: str
    timezone: str
    misfire: str  # Skip, Once or All
    catch_up: int  # most slots made up for with All


@dataclass(frozen=True, slots=True)
class TaskWire:
    """A task as the supervisor knows it; the function stays in the child. Times in seconds; None: as the topic says."""

    name: str
    topic: str = DEFAULT_TOPIC
    is_async: bool = False
    soft_timeout: float | None = None
    hard_timeout: float | None = None
    attempts: int | None = None
    backoff: Mapping[str, Any] | None = None
    result_ttl: float | None = None
    expires: float | None = None
    priority: int = DEFAULT_PRIORITY
    unique_for: float | None = None
    #: What its rules make of a call without arguments: the key and the unique text of what a schedule sends.
    slot_key: str | None = None
    slot_unique: str | None = None
    schedule: Schedule | None = None

    def wire(self) -> list[Any]:
        """Plain values for a frame."""
        values = [getattr(self, name) for name in _WIRE]
        schedule = self.schedule
        values[-1] = schedule and [
            schedule.cron,
            schedule.timezone,
            str(schedule.misfire),
            schedule.catch_up,
        ]
        return values

    @classmethod
    def from_wire(cls, values: Any) -> TaskWire:
        """What `wire` wrote. Raises NotDecodable."""
        try:
            fields = dict(zip(_WIRE, values, strict=True))
            if fields["schedule"] is not None:
                cron, timezone, misfire, catch_up = fields["schedule"]
                fields["schedule"] = Schedule(cron, timezone, Misfire(misfire), catch_up)
            return TaskWire(**fields)
        except (TypeError, ValueError) as error:
            raise NotDecodable(f"not the description of a task: {error}") from error

    def retry_policy(self, options: Options, policy: TopicPolicy) -> RetryPolicy:
        """The bounds of one message: what the send set, then the task, then the topic."""
        attempts = _first(options.attempts, self.attempts, policy.retry.attempts)
        chosen = _first(options.backoff, self.backoff, None)
        backoff = policy.retry.backoff if chosen is None else backoff_of(chosen)
        return replace(policy.retry, attempts=attempts, backoff=backoff)

    def timeouts(self, options: Options, policy: TopicPolicy) -> tuple[float | None, float]:
        """The soft and the hard timeout of one message; a soft one that is not below the hard one is none."""
        hard = _first(options.hard_timeout, self.hard_timeout, policy.hard_timeout)
        soft = _first(options.soft_timeout, self.soft_timeout, policy.soft_timeout)
        return (soft if soft is not None and soft < hard else None), hard

    def scheduled(self, slot: float) -> Message:
        """The message of one slot of the schedule; the slot is part of its id, so a second one changes nothing."""
        return Message(
            id=f"cron:{self.name}:{slot:.0f}",
            topic=self.topic,
            task=self.name,
            body=b"[[],{}]",
            priority=self.priority,
            key=self.slot_key,
            expires_in=self.expires,
            unique=self.slot_unique,
            unique_for=self.unique_for,
            result_ttl=self.result_ttl,
            headers={"slot": f"{slot:.0f}"},
        )


_WIRE: Final = tuple(TaskWire.__dataclass_fields__)


def _no_function() -> None:
    raise AssertionError("a TaskSpec has a function")


@dataclass(frozen=True, slots=True)
class TaskSpec(TaskWire):
    """A task with its function, as the app knows it."""

    function: Callable[..., Any] = field(default=_no_function, repr=False)
    unique: bool | Rule = False
    key: Rule | None = None
    #: Parameters that the worker fills in.
    depends: Mapping[str, Dependency] = field(default_factory=dict)

    @classmethod
    def parse(cls, settings: TaskSettings, **known: Any) -> Self:
        """The spec that `@app.task(**settings)` means; `known` are fields that are given by the function.

        Raises InvalidInput, naming the setting.
        """
        unknown = set(settings) - set(TaskSettings.__annotations__)
        if unknown:
            raise InvalidInput(
                f"@app.task knows no {', '.join(sorted(unknown))};"
                f" it takes {', '.join(TaskSettings.__annotations__)}"
            )
        spec = cls(
            **known,
            schedule=_schedule(settings),
            unique=settings.get("unique", False),
            key=settings.get("key"),
            priority=settings.get("priority", DEFAULT_PRIORITY),
            **limits(settings),
        )
        spec.check()
        return spec

    def check(self) -> None:
        """Raise InvalidInput for settings that cannot hold."""
        check_topic(self.topic)
        if not TASK_NAME.match(self.name):
            raise InvalidInput(
                f"task name {self.name!r}: use 1 to 100 letters, digits, '.', '_', ':' or '-'; give name=…"
            )
        if self.priority not in PRIORITIES:
            raise InvalidInput(f"priority={self.priority!r}: use 0 to 9; 9 runs first")
        for name, value in (("key", self.key), ("unique", self.unique)):
            switch = name == "unique" and isinstance(value, bool)
            if not (switch or value is None or isinstance(value, str) or callable(value)):
                raise InvalidInput(
                    f"{name}={value!r}: give a text like '{{customer}}', or a function of the arguments"
                )
        if self.unique_for is not None and not self.unique:
            raise InvalidInput("unique_for says how long; give unique=True or a rule too")
        if self.schedule is not None:
            self.schedule.check()
        if self.soft_timeout is not None and self.hard_timeout is not None:
            check_timeouts(self.soft_timeout, self.hard_timeout)


def limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that tasks and single sends share, parsed. Raises InvalidInput, naming the setting."""
    found: dict[str, Any] = {}
    for name, target in _DURATIONS.items():
        if settings.get(name) is not None:
            found[target] = _duration(name, settings[name])
    if settings.get("retries") is not None:
        retries = settings["retries"]
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            raise InvalidInput(f"retries={retries!r}: use a whole number, 0 or more")
        found["attempts"] = retries + 1
    if settings.get("backoff") is not None:
        found["backoff"] = asdict(backoff_of(settings["backoff"]))
    return found


_DURATIONS: Final = {
    "timeout": "hard_timeout",
    "soft_timeout": "soft_timeout",
    "expires": "expires",
    "unique_for": "unique_for",
    "result_ttl": "result_ttl",
}


def _duration(name: str, value: Duration) -> float:
    try:
        seconds = parse_duration(value)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None
    if not (seconds > 0 or (seconds == 0 and name == "result_ttl")):
        raise InvalidInput(f"{name}={value!r}: use more than 0")
    return seconds


def check_topic(name: Any) -> None:
    """Raise InvalidInput for what can be no topic's name."""
    if not isinstance(name, str) or not TOPIC_NAME.match(name):
        raise InvalidInput(
            f"topic {name!r}: use 1 to 128 letters, digits, '.', '_', ':' or '-', a letter or digit first"
        )


def check_timeouts(soft: float, hard: float) -> None:
    """Raise InvalidInput for a soft timeout that comes too late to act."""
    if soft >= hard:
        raise InvalidInput(
            f"soft_timeout {soft:g}s is not below timeout {hard:g}s, so it never acts"
        )


def backoff_of(value: Backoff | Mapping[str, Any] | str) -> Backoff:
    """The backoff that a setting means. Raises InvalidInput."""
    if isinstance(value, str) and value.lower() == "none":
        return Backoff(BackoffType.FIXED, initial=0.0, jitter=Jitter.NONE)
    try:
        fields = asdict(value) if isinstance(value, Backoff) else dict(_mapping(value))
        for name, read in _BACKOFF.items():
            if name in fields:
                fields[name] = read(fields[name])
        return Backoff(**fields)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"backoff {value!r}: {error}; use Exponential, Fixed, None, or a millgate.Backoff"
        ) from None


def _mapping(value: Mapping[str, Any] | str) -> Mapping[str, Any]:
    return {"type": value} if isinstance(value, str) else value


def _positive(value: Any) -> float:
    number = parse_duration(value)
    if not number >= 0:
        raise ValueError(f"{value!r} is below 0")
    if not number < LONGEST:
        raise ValueError(f"{value!r} is not below {LONGEST:.0e}")
    return number


_BACKOFF: Final[Mapping[str, Callable[[Any], Any]]] = {
    "type": lambda text: BackoffType(str(text).capitalize()),
    "jitter": lambda text: Jitter(str(text).capitalize()),
    "initial": _positive,
    "factor": _positive,
    "max": _positive,
}


def _schedule(settings: TaskSettings) -> Schedule | None:
    if "cron" not in settings:
        for name in ("timezone", "misfire", "catch_up"):
            if name in settings:
                raise InvalidInput(f"{name} is about a schedule; give cron=… too")
        return None
    misfire = str(settings.get("misfire", Misfire.ONCE)).capitalize()
    if misfire not in tuple(Misfire):
        raise InvalidInput(f"misfire {misfire!r}: use {', '.join(Misfire)}")
    plain = Schedule(settings["cron"])
    return Schedule(
        plain.cron,
        settings.get("timezone", plain.timezone),
        Misfire(misfire),
        settings.get("catch_up", plain.catch_up),
    )


def _first(*values: Any) -> Any:
    """The first that is set."""
    return next((value for value in values if value is not None), None)
