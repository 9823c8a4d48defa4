"""What a machine and a bare driver give at most, beside a send: `python -m benchmarks.floors --broker redis`.

A send that waits for its confirmation cannot be quicker than a call of the bare driver that waits for its own, on the
same server in the same minute. Rounds of both are taken in turn, medians printed; the last line is one JSON object:
calls and sends a second, the send's share of the call, a byte's way over loopback and back, one sync of the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from benchmarks.nothing import noop
from benchmarks.progress import say
from benchmarks.servers import server
from millgate.app import App
from millgate.brokers import open_broker

_LINE = b"x" * 281  # a plain message's size in the queue
_SYNCS = 200


@contextmanager
def redis(url: str) -> Iterator[Callable[[], object]]:
    """A PING: no command does less."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port)) as bare:
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ping() -> object:
            bare.sendall(b"PING\r\n")
            return bare.recv(64)

        yield ping


@contextmanager
def postgres(url: str) -> Iterator[Callable[[], object]]:
    """One row into a table with a primary key, prepared and committed: what storing anything takes."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)"
        )
        connection.pgconn.prepare(b"put", b"INSERT INTO bare (body) VALUES ($1)")
        yield lambda: connection.pgconn.exec_prepared(b"put", [_LINE], [1])


@contextmanager
def rabbitmq(url: str) -> Iterator[Callable[[], object]]:
    """One durable message into a quorum queue, confirmed."""
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("bare", durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    durable = pika.BasicProperties(delivery_mode=2)
    yield lambda: channel.basic_publish("", "bare", _LINE, durable, mandatory=True)
    channel.queue_delete("bare")
    connection.close()


@contextmanager
def local(url: str) -> Iterator[Callable[[], object]]:
    """A byte to another process and back, and one sync: what any call to a brokerd with a journal takes."""
    del url
    with echo() as there, appended() as sync:

        def both() -> object:
            there()
            return sync()

        yield both


FLOORS = {"redis": redis, "postgres": postgres, "rabbitmq": rabbitmq, "local": local}


@contextmanager
def echo() -> Iterator[Callable[[], object]]:
    """A byte to another process over loopback, and back."""
    listener = socket.create_server(("127.0.0.1", 0))
    if not os.fork():
        peer, _ = listener.accept()
        listener.close()
        while data := peer.recv(64):
            peer.sendall(data)
        os._exit(0)
    with listener, socket.create_connection(listener.getsockname()) as bare:
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def there() -> object:
            bare.sendall(b"x")
            return bare.recv(64)

        yield there
    os.wait()


@contextmanager
def appended() -> Iterator[Callable[[], object]]:
    """A line behind a file's end, brought on the disk."""
    with tempfile.TemporaryFile() as file:

        def sync() -> object:  # of what the last call wrote
            os.fdatasync(file.fileno())
            return os.write(file.fileno(), _LINE)

        yield sync


def rate(call: Callable[[], object], seconds: float) -> float:
    """Calls a second, one after the other."""
    call()
    count, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + seconds:
        call()
        count += 1
    return count / (time.perf_counter() - begin)


def microseconds(kind: Callable[[], object], calls: int) -> float:
    """Of one call, the median."""
    took = []
    for _ in range(calls):
        begin = time.perf_counter()
        kind()
        took.append(time.perf_counter() - begin)
    return statistics.median(took) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floors", description=__doc__)
    parser.add_argument("--broker", choices=sorted(FLOORS), required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of each kind of call in a round"
    )
    options = parser.parse_args()
    with echo() as there, appended() as sync:
        found = {
            "loopback_us": microseconds(there, 5_000),
            "fdatasync_us": microseconds(sync, _SYNCS),
        }
    bare_rates, send_rates = [], []
    with server(options.broker) as running:
        url = running.url("floors")
        app = App(open_broker(url, queue="floors"))
        app.broker.setup()
        send = app.task(name="noop", topic="floors", result_ttl=0)(noop).send
        with FLOORS[options.broker](url) as bare:
            for number in range(1, options.rounds + 1):
                bare_rates.append(rate(bare, options.seconds))
                send_rates.append(rate(send, options.seconds))
                say(
                    f"round {number}: {bare_rates[-1]:,.0f} bare calls, {send_rates[-1]:,.0f} sends a second"
                )
    found |= {
        "bare_per_s": statistics.median(bare_rates),
        "sends_per_s": statistics.median(send_rates),
    }
    shares = [sent / called for sent, called in zip(send_rates, bare_rates, strict=True)]
    result = {name: round(value, 1) for name, value in found.items()}
    print(
        json.dumps(
            {"broker": options.broker, **result, "share": round(statistics.median(shares), 3)}
        )
    )


if __name__ == "__main__":
    main()
