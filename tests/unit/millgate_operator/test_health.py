"""/healthz, /readyz and /metrics, asked over HTTP; and the canary that tells whether the watch lives."""

from __future__ import annotations

import urllib.error
import urllib.request

from millgate_operator.canary import Canary
from millgate_operator.health import Answers, serve
from millgate_operator.metrics import Metrics
from support.clock import FakeClock


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_complaints_are_answered_as_503_with_their_words() -> None:
    server = serve("127.0.0.1:0", Answers(lambda: "blind", lambda: "", lambda: "x 1\n"))
    try:
        assert ask(server.server_port, "/healthz") == (503, "blind\n")
        assert ask(server.server_port, "/readyz") == (200, "ok\n")
        assert ask(server.server_port, "/metrics") == (200, "x 1\n")
        assert ask(server.server_port, "/other")[0] == 404
    finally:
        server.shutdown()
        server.server_close()


def test_the_canary_grows_silent_with_the_clock_and_young_with_each_event() -> None:
    clock = FakeClock()
    canary = Canary(None, clock, "system", "canary")  # type: ignore[arg-type]
    assert canary.age() is None
    canary.begin()
    clock.advance(100)
    assert canary.age() == 100
    canary.seen()
    assert canary.age() == 0


def test_metrics_are_written_in_families_with_escaped_labels() -> None:
    metrics = Metrics()
    metrics.add("millgate_operator_reconciles_total")
    metrics.add("millgate_operator_reconciles_total")
    gauges = [("millgate_topic_queued", {"topic": 'a"b\\c\n'}, 3.0)]
    text = metrics.text(gauges)
    assert (
        "# TYPE millgate_operator_reconciles_total counter\nmillgate_operator_reconciles_total 2\n"
        in text
    )
    assert 'millgate_topic_queued{topic="a\\"b\\\\c\\n"} 3\n' in text
    assert "millgate_operator_build_info{version=" in text
