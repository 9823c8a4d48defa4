"""The operator's connections to brokers: one for each queue, opened anew with a new Secret, secrets kept private."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from millgate.brokers.memory import MemoryBroker
from millgate.errors import BrokerUnavailable
from millgate_operator.links import Links, SharedConnections
from millgate_operator.observed import Connection

KEY = ("shop", "orders")
URL = "postgresql://u:p@db/x?sslrootcert=/etc/millgate/broker/ca.crt"


class Opener:
    """Opens memory brokers, and remembers for what."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.closed: list[str] = []
        self.away = False

    def __call__(self, url: str, queue: str, deadline: float) -> MemoryBroker:
        self.urls.append(url)
        broker, opener = MemoryBroker(), self

        class Watched(MemoryBroker):
            def server(self):  # type: ignore[no-untyped-def]
                if opener.away:
                    raise BrokerUnavailable("no answer")
                return super().server()

            def close(self) -> None:
                opener.closed.append(url)
                super().close()

        broker.close()
        return Watched()


@pytest.fixture
def opener() -> Opener:
    return Opener()


@pytest.fixture
def links(opener: Opener):  # type: ignore[no-untyped-def]
    made = Links(3.0, opener)
    yield made
    made.close_all()


def test_a_queue_has_one_broker_for_as_long_as_its_secret_stays(
    links: Links, opener: Opener
) -> None:
    one = links.open(KEY, "q", Connection(URL))
    assert links.open(KEY, "q", Connection(URL)) is one
    assert links.get(KEY) is one
    assert len(opener.urls) == 1


def test_a_new_secret_means_a_new_connection_and_the_end_of_the_old_one(
    links: Links, opener: Opener
) -> None:
    links.open(KEY, "q", Connection(URL, {"uri": b"1"}))
    links.open(KEY, "q", Connection(URL, {"uri": b"2"}))
    assert len(opener.urls) == 2
    assert len(opener.closed) == 1
    assert len(links) == 1


def test_a_new_secret_that_does_not_work_leaves_the_old_connection_to_who_looks(
    links: Links, opener: Opener
) -> None:
    one = links.open(KEY, "q", Connection(URL, {"ca.crt": b"1"}))
    old = Path(opener.urls[0].partition("sslrootcert=")[2])
    opener.away = True
    for wrong in (b"2", b"3"):
        with pytest.raises(BrokerUnavailable):
            links.open(KEY, "q", Connection(URL, {"ca.crt": wrong}))
        assert links.get(KEY) is one
        assert old.read_bytes() == b"1"
    assert opener.closed == [opener.urls[1]], "the one that never worked"
    opener.away = False
    new = links.open(KEY, "q", Connection(URL, {"ca.crt": b"3"}))
    assert links.get(KEY) is new
    assert not old.exists()
    assert sorted(opener.closed) == sorted(opener.urls[:2])
    opener.away = True
    with pytest.raises(BrokerUnavailable):
        links.open(KEY, "q", Connection(URL, {"ca.crt": b"4"}))
    links.close(KEY)
    assert sorted(opener.closed) == sorted(opener.urls)
    assert links.get(KEY) is None


def test_files_of_the_secret_are_private_and_where_the_url_says(
    links: Links, opener: Opener
) -> None:
    links.open(KEY, "q", Connection(URL, {"ca.crt": b"certificate"}))
    [url] = opener.urls
    path = Path(url.partition("sslrootcert=")[2])
    assert path.read_bytes() == b"certificate"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    links.close(KEY)
    assert not path.exists()


def test_queues_with_equal_secrets_have_one_url_until_the_last_one_goes(
    links: Links, opener: Opener
) -> None:
    other = ("shop", "mail")
    for key in (KEY, other):
        links.open(key, key[1], Connection(URL, {"ca.crt": b"certificate"}))
    assert len(set(opener.urls)) == 1
    path = Path(opener.urls[0].partition("sslrootcert=")[2])
    links.close(KEY)
    assert path.read_bytes() == b"certificate"
    links.open(other, "mail", Connection(URL, {"ca.crt": b"rotated"}))
    assert not path.exists()
    assert Path(opener.urls[-1].partition("sslrootcert=")[2]).read_bytes() == b"rotated"


def test_queues_on_one_server_share_its_connections() -> None:
    open_one = SharedConnections()
    url = "postgresql://u:p@db/x"
    brokers = [open_one(url, queue, 3.0) for queue in ("one", "two")]
    spares = {id(broker.pool._spares) for broker in brokers}  # type: ignore[attr-defined]
    assert len(spares) == 1
    assert open_one("memory://links", "one", 3.0).server().kind == "memory"


def test_a_broker_that_does_not_answer_is_not_used_yet(links: Links, opener: Opener) -> None:
    opener.away = True
    with pytest.raises(BrokerUnavailable):
        links.open(KEY, "q", Connection(URL))
    assert links.get(KEY) is None
    opener.away = False
    links.open(KEY, "q", Connection(URL))
    assert links.get(KEY) is not None
    assert len(opener.urls) == 1, "the same object is tried again"


def test_of_two_queues_in_one_place_the_older_has_it(links: Links) -> None:
    place = ("db/x", "q")
    assert links.holder(("shop", "young"), "2026-02-01", place) is None
    assert links.holder(("shop", "old"), "2026-01-01", place) is None
    assert links.holder(("shop", "young"), "2026-02-01", place) == ("shop", "old")
    links.close(("shop", "old"))
    assert links.holder(("shop", "young"), "2026-02-01", place) is None
