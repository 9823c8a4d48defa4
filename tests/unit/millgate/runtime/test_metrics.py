"""Prometheus text."""

from __future__ import annotations

from millgate.message import Claim
from millgate.runtime.metrics import Metrics


def test_counters_gauges_and_histograms_have_help_type_and_values() -> None:
    metrics = Metrics()
    metrics.add("millgate_claim_calls_total")
    metrics.add("millgate_claim_calls_total", 2)
    metrics.set("millgate_busy", 3)
    metrics.claimed([Claim("a", "video", "1", b"", age=0.2)])
    text = metrics.text()
    assert "# TYPE millgate_claim_calls_total counter\nmillgate_claim_calls_total 3\n" in text
    assert "# TYPE millgate_busy gauge\nmillgate_busy 3\n" in text
    assert 'millgate_wait_seconds_bucket{topic="video",le="0.1"} 0' in text
    assert 'millgate_wait_seconds_bucket{topic="video",le="0.5"} 1' in text
    assert 'millgate_wait_seconds_bucket{topic="video",le="+Inf"} 1' in text
    assert 'millgate_wait_seconds_count{topic="video"} 1' in text


def test_what_is_not_known_is_not_there() -> None:
    metrics = Metrics()
    metrics.set("millgate_memory_limit_bytes", 5)
    metrics.set("millgate_memory_limit_bytes", None)
    assert "millgate_memory_limit_bytes" not in metrics.text()


def test_labels_are_escaped() -> None:
    metrics = Metrics()
    metrics.add("millgate_claims_total", topic='a"b\\c\nd')
    assert 'millgate_claims_total{topic="a\\"b\\\\c\\nd"} 1' in metrics.text()


def test_a_counter_can_be_read_by_a_label() -> None:
    metrics = Metrics()
    metrics.add("millgate_recycles_total", reason="MaxRSS")
    metrics.add("millgate_recycles_total", reason="MaxRSS")
    assert metrics.by_label("millgate_recycles_total", "reason") == {"MaxRSS": 2}
    assert metrics.value("millgate_recycles_total", reason="MaxRSS") == 2
