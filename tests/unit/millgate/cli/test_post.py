"""Where a brokerd stands, as probes and scrapers hear it."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from millgate.brokers.rabbitmq.role import Standing
from millgate.cli.post import Post
from millgate.errors import InvalidSettings


def page(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"


def test_it_is_ready_once_it_has_served_or_stood_by_and_stays_so() -> None:
    for place in (Standing.SERVING, Standing.WAITING):
        post = Post("q")
        assert "no connection to RabbitMQ yet" in (post.unready() or "")
        post.take(Standing.AWAY)
        assert post.unready() is not None
        post.take(place)
        assert post.unready() is None
        post.take(Standing.AWAY)
        assert post.unready() is None, "an outage of the server is no reason to start again"


def test_turns_are_counted_once_each() -> None:
    post = Post("shop.orders")
    for standing in (Standing.WAITING, Standing.SERVING, Standing.SERVING, Standing.AWAY):
        post.take(standing)
    assert post.status() == {"queue": "shop.orders", "standing": "away", "turns": 1}
    post.take(Standing.SERVING)
    assert 'millgate_brokerd_serving{queue="shop.orders"} 1\n' in post.metrics()
    assert 'millgate_brokerd_turns_total{queue="shop.orders"} 2\n' in post.metrics()


def test_probes_and_scrapers_get_their_answers_over_http() -> None:
    post = Post("q")
    port = post.listen("127.0.0.1:0")
    assert page(port, "/livez").startswith("200")
    assert page(port, "/readyz").startswith("503 no connection")
    post.take(Standing.WAITING)
    assert page(port, "/readyz").startswith("200")
    assert '"standing": "waiting"' in page(port, "/status")
    assert 'millgate_brokerd_serving{queue="q"} 0' in page(port, "/metrics")


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="is no address"):
        Post("q").listen("everywhere")
