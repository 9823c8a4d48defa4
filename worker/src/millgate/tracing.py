"""The trace that tasks are part of, where OpenTelemetry is installed: into the headers of a send, around each run.

Nobody pays for it who does not trace: the API is imported only once the program has done so itself, or a message
brings a trace along.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence

from millgate.errors import Retry
from millgate.failure import describe
from millgate.hints import TYPE_CHECKING, Any, Final
from millgate.middleware import Layer

if TYPE_CHECKING:
    from millgate.context import Context

_API: Final = "opentelemetry.trace"
#: The header by which a trace travels, as W3C names it. Programs with another propagator have the API loaded.
_HEADER: Final = "traceparent"


def inject(headers: dict[str, str]) -> None:
    """Add the trace that this code is part of, if the program traces."""
    if _API in sys.modules:
        from opentelemetry import propagate

        propagate.inject(headers)


def around(layers: Sequence[Layer], headers: Mapping[str, str]) -> Sequence[Layer]:
    """The middleware for a run of a message with these headers: a span outside of `layers`, if it is to be traced."""
    if _API in sys.modules or (_HEADER in headers and _importable()):
        return (span, *layers)
    return layers


def _importable() -> bool:
    try:
        import opentelemetry.trace  # noqa: F401 -- whether it is there is the question
    except ImportError:
        return False
    return True


def span(here: Context) -> Generator[Any, Any, Any]:
    """A middleware: the run as a span, whose parent is the send."""
    from opentelemetry import propagate, trace

    tracer = trace.get_tracer("millgate")
    attributes: dict[str, str | int] = {
        "messaging.system": "millgate",
        "messaging.operation.type": "process",
        "messaging.destination.name": here.topic,
        "messaging.message.id": here.id,
        "millgate.task": here.task,
        "millgate.attempt": here.attempt,
    }
    with tracer.start_as_current_span(
        f"run {here.task}",
        context=propagate.extract(here.headers),
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield
        except BaseException as error:
            failure = describe(error)
            event = {
                "exception.type": failure.error,
                "exception.message": failure.message,
                "exception.stacktrace": failure.traceback,
            }
            current.add_event("exception", event)
            if not isinstance(error, Retry):  # that is asked for, and no error
                status = trace.Status(trace.StatusCode.ERROR, f"{failure.error}: {failure.message}")
                current.set_status(status)
            raise
