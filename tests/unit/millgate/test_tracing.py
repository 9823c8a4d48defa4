"""Traces, with the real API and SDK: from a send into its run and on; and nothing at all where nobody traces."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from millgate import App, Reject, Retry, SoftTimeout, chain, current, testing
from millgate.errors import TaskFailed
from millgate.execute import Job, run_async
from support.builders import a_message
from support.surroundings import FakeSurroundings

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def app() -> App:
    return App("memory://")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What an SDK that is set up for this test only has exported."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    [span] = spans.get_finished_spans()
    return span


def test_a_run_is_a_span_below_the_one_that_sent_it(app: App, spans: InMemorySpanExporter) -> None:
    task = app.task(name="t", topic="video")(lambda: trace.get_current_span().get_span_context())
    with testing.memory(app) as bench:
        with trace.get_tracer("test").start_as_current_span("request") as request:
            sent = task.send()
        bench.drain()
    above, below = sorted(spans.get_finished_spans(), key=lambda span: span.name == "run t")
    assert below.parent is not None
    assert below.parent.span_id == request.get_span_context().span_id
    assert below.parent.trace_id == above.context.trace_id
    assert (below.name, below.kind) == ("run t", SpanKind.CONSUMER)
    assert dict(below.attributes or {}) == {
        "messaging.system": "millgate",
        "messaging.operation.type": "process",
        "messaging.destination.name": "video",
        "messaging.message.id": sent.id,
        "millgate.task": "t",
        "millgate.attempt": 1,
    }
    assert below.status.status_code is StatusCode.UNSET


def test_what_a_task_sends_is_below_its_run(app: App, spans: InMemorySpanExporter) -> None:
    inner = app.task(name="inner")(lambda: None)
    outer = app.task(name="outer")(lambda: inner.send().id)
    with testing.memory(app) as bench:
        outer.send()
        bench.drain()
    first, second = spans.get_finished_spans()
    assert (first.name, second.name) == ("run outer", "run inner")
    assert second.parent is not None
    assert second.parent.span_id == first.context.span_id


def test_every_step_of_a_chain_is_of_the_same_trace(app: App, spans: InMemorySpanExporter) -> None:
    task = app.task(name="t")(lambda *_: None)
    with testing.memory(app) as bench:
        with trace.get_tracer("test").start_as_current_span("request"):
            chain(task.s(), task.s(), task.s()).send()
        bench.drain()
    assert len({span.context.trace_id for span in spans.get_finished_spans()}) == 1
    assert len(spans.get_finished_spans()) == 4


def test_baggage_travels_too(app: App, spans: InMemorySpanExporter) -> None:
    task = app.task(name="t")(lambda: current().headers["baggage"])
    from opentelemetry import context

    token = context.attach(baggage.set_baggage("tenant", "acme"))
    try:
        with testing.eager(app):
            assert task.send().result(0) == "tenant=acme"
    finally:
        context.detach(token)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("no good"), StatusCode.ERROR),
        (SoftTimeout("late"), StatusCode.ERROR),
        (Reject("pointless"), StatusCode.ERROR),
        (Retry("again"), StatusCode.UNSET),
    ],
)
def test_how_a_run_ended_is_seen(
    app: App, spans: InMemorySpanExporter, error: BaseException, status: StatusCode
) -> None:
    def fail() -> None:
        raise error

    task = app.task(name="t", retries=0)(fail)
    with testing.memory(app) as bench:
        sent = task.send()
        bench.drain()
        if status is StatusCode.ERROR:
            with pytest.raises(TaskFailed):
                sent.result(0)
    span = only(spans)
    assert span.status.status_code is status
    [event] = span.events
    assert event.name == "exception"


def test_neighbours_in_one_loop_have_spans_of_their_own(
    app: App, spans: InMemorySpanExporter
) -> None:
    async def nap(number: int) -> str:
        await asyncio.sleep(0.01 * number)
        return format(trace.get_current_span().get_span_context().span_id, "x")

    app.task(name="nap")(nap)

    async def all_of_them() -> None:
        jobs = [Job(a_message(task="nap", body=b"[[%d],{}]" % number)) for number in (3, 1, 2)]
        outcomes = await asyncio.gather(*(run_async(app, job, FakeSurroundings()) for job in jobs))
        seen = {outcome.result for outcome in outcomes}  # type: ignore[union-attr]
        assert seen == {b'"%x"' % span.context.span_id for span in spans.get_finished_spans()}
        assert len(seen) == 3

    asyncio.run(all_of_them())


def test_middleware_runs_within_the_span(app: App, spans: InMemorySpanExporter) -> None:
    seen = []

    @app.middleware
    def note(context: object) -> Iterator[None]:
        seen.append(trace.get_current_span().get_span_context().span_id)
        yield

    task = app.task(name="t")(lambda: None)
    with testing.eager(app):
        task.send().result(0)
    assert seen == [only(spans).context.span_id]


def alone(program: str) -> None:
    """Run it in an interpreter where nobody has imported anything."""
    subprocess.run([sys.executable, "-c", program], check=True)


COMMON = f"""
import sys
from millgate import App, current, testing
app = App("memory://")
task = app.task(name="t")(lambda: dict(current().headers))
inner = app.task(name="inner")(lambda: task.send().result(0))
HEADERS = {{"traceparent": "{HEADER}"}}
"""


def test_who_does_not_trace_does_not_import_it() -> None:
    alone(
        COMMON
        + """
with testing.eager(app):
    assert task.send().result(0) == {}
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    )


def test_a_trace_that_a_message_brings_is_passed_on_though_the_app_knows_nothing_of_it() -> None:
    alone(
        COMMON
        + """
with testing.eager(app):
    headers = inner.options(headers=HEADERS).send().result(0)
assert headers["traceparent"] == HEADERS["traceparent"]
assert "opentelemetry.trace" in sys.modules
"""
    )


def test_a_trace_harms_nobody_where_the_api_is_not_installed() -> None:
    alone(
        COMMON
        + """
sys.modules["opentelemetry"] = None
with testing.eager(app):
    assert task.options(headers=HEADERS).send().result(0) == HEADERS
"""
    )


def test_a_trace_that_is_passed_on_gives_way_to_the_one_that_is_followed(
    app: App, spans: InMemorySpanExporter
) -> None:
    child = app.task(name="child")(lambda: current().headers)
    parent = app.task(name="parent")(lambda: child.options(headers=current().headers).send().id)
    with testing.eager(app), trace.get_tracer("test").start_as_current_span("request"):
        sent = app.get(parent.options(headers={"tenant": "a"}).send().result(0))
        headers = sent.result(0)
    [run] = [span for span in spans.get_finished_spans() if span.name == "run parent"]
    assert run.context is not None
    assert headers["traceparent"].split("-")[2] == f"{run.context.span_id:016x}"
    assert headers["tenant"] == "a"
