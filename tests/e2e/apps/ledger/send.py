"""Sends work from inside the cluster and prints what came back as one line of JSON."""

from __future__ import annotations

import json
import sys

from millgate import App


def main() -> None:
    """`send.py greet|square|nap COUNT`."""
    kind, count = sys.argv[1], int(sys.argv[2])
    if kind == "greet":
        from hello.tasks import app, greet

        results = greet.send_many([(f"n{number}",) for number in range(count)])
        wanted: list[object] = [f"Hello, n{number}!" for number in range(count)]
    elif kind == "square":
        from ledger.tasks import app, square

        results = square.send_many([(number,) for number in range(count)])
        wanted = [number * number for number in range(count)]
    else:
        from ledger.tasks import app, nap

        results = nap.send_many([(4.0,) for _ in range(count)])
        wanted = [1] * count
    answers = [result.result(timeout=120) for result in results]
    right = sum(answer == want for answer, want in zip(answers, wanted, strict=True))
    for answer, want in zip(answers, wanted, strict=True):
        if answer != want:
            print("wrong:", answer, "for", want)
    print(json.dumps({"sent": count, "right": right, "app": isinstance(app, App)}))


main()
