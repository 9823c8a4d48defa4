"""A trace through real processes: from a request through a task to the task that it sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from millgate import App
from support.wait import eventually

TRACED_APP = """
import json, os, sys
from millgate import App, current

app = App("memory://")

@app.on_start
def trace_to_a_file():
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

    provider = TracerProvider()
    file = open(os.environ["SPANS"], "a", buffering=1)
    line = lambda span: span.to_json(indent=None) + "\\n"
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=file, formatter=line)))
    trace.set_tracer_provider(provider)

@app.task(name="outer")
def outer():
    return inner.send().id

@app.task(name="inner")
async def inner():
    return 1
"""
PLAIN_APP = """
import sys
from millgate import App
app = App("memory://")

@app.task(name="loaded")
def loaded():
    return [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def test_a_trace_goes_from_a_request_through_a_task_to_what_it_sends(
    bench: Any, tmp_path: Path
) -> None:
    (tmp_path / "traced.py").write_text(TRACED_APP, encoding="utf-8")
    file = tmp_path / "spans"
    bench.ready(app="traced:app", cwd=tmp_path, environ={"SPANS": str(file)})
    outer = App(bench.broker).task(name="outer")(lambda: None)
    with TracerProvider().get_tracer("test").start_as_current_span("request") as request:
        sent = outer.send()
    inner = bench.result(sent.id)
    bench.end_of(inner)
    spans = eventually(
        lambda: (
            (lines := file.read_text(encoding="utf-8").splitlines())
            and len(lines) == 2
            and [json.loads(line) for line in lines]
        )
    )
    by_name = {span["name"]: span for span in spans}
    above = trace.format_span_id(request.get_span_context().span_id)
    assert by_name["run outer"]["parent_id"] == f"0x{above}"
    assert by_name["run inner"]["parent_id"] == by_name["run outer"]["context"]["span_id"]
    assert by_name["run inner"]["attributes"]["messaging.message.id"] == inner
    trace_id = trace.format_trace_id(request.get_span_context().trace_id)
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{trace_id}"}


def test_a_child_whose_tasks_nobody_traces_has_imported_nothing_for_it(
    bench: Any, tmp_path: Path
) -> None:
    (tmp_path / "plain.py").write_text(PLAIN_APP, encoding="utf-8")
    bench.ready(app="plain:app", cwd=tmp_path)
    assert bench.result(bench.send("loaded")) == []
