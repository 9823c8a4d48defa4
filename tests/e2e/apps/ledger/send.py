"""Sends work from inside the cluster and prints what came back as one line of JSON."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from millgate import App
from millgate.errors import TaskFailed
from millgate.result import Result

Sent = tuple[App, list[Result], list[Any]]  # with the answers that are right


def greet(count: int) -> Sent:
    from hello.tasks import app, greet

    results = greet.send_many([(f"n{number}",) for number in range(count)])
    return app, results, [f"Hello, n{number}!" for number in range(count)]


def square(count: int) -> Sent:
    from ledger.tasks import app, square

    results = square.send_many([(number,) for number in range(count)])
    return app, results, [number * number for number in range(count)]


def nap(count: int) -> Sent:
    from ledger.tasks import app, nap

    return app, nap.send_many([(4.0,) for _ in range(count)]), [1] * count


def slumber(count: int) -> Sent:
    from ledger.tasks import app, nap

    return app, nap.send_many([(30.0,) for _ in range(count)]), [1] * count


def crowd(count: int) -> Sent:
    """Small tasks, and in their middle one that grows over everything."""
    from greedy.tasks import app, double, grow

    half = count // 2
    results = double.send_many([(number,) for number in range(half)])
    results.append(grow.send(1000))
    results += double.send_many([(number,) for number in range(half, count - 1)])
    answers: list[Any] = [2 * number for number in range(count - 1)]
    return app, results, [*answers[:half], None, *answers[half:]]


def counted(number: int) -> Sent:
    """Each of them right on its first start."""
    from counted.tasks import app, count

    return app, count.send_many([(one,) for one in range(number)]), [1] * number


def gulp(count: int) -> Sent:
    from greedy.tasks import app, gulp

    return app, [gulp.send(1000) for _ in range(count)], [None] * count


KINDS: dict[str, Callable[[int], Sent]] = {
    function.__name__: function for function in (greet, square, nap, slumber, crowd, counted, gulp)
}


def main() -> None:
    """`send.py KIND COUNT`."""
    kind, count = sys.argv[1], int(sys.argv[2])
    app, results, wanted = KINDS[kind](count)
    right, failed = 0, Counter[str]()
    for result, want in zip(results, wanted, strict=True):
        try:
            answer = result.result(timeout=120)
        except TaskFailed as error:
            failed[error.why] += 1
            continue
        right += answer == want
        if answer != want:
            print("wrong:", answer, "for", want)
    answer = {"sent": count, "right": right, "app": isinstance(app, App)}
    print(json.dumps(answer | ({"failed": failed} if failed else {})))


main()
