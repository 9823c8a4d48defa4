"""Four tasks: count the tokens of a file, append to a report, finish it, and one that asks for too much memory."""

from __future__ import annotations

import tokenize
from collections import Counter
from contextlib import suppress
from pathlib import Path

from millgate import App

app = App()  # the broker and the queue come from MILLGATE_BROKER and MILLGATE_QUEUE


@app.task(topic="files", timeout="1m")
def count(path: str) -> dict[str, object]:
    """Tokenise one source file; how many lines it has, and how many tokens of each kind."""
    data = Path(path).read_bytes()
    kinds: Counter[str] = Counter()
    try:
        with Path(path).open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                kinds[tokenize.tok_name[token.type]] += 1
        broken = ""
    except (
        SyntaxError,
        tokenize.TokenError,
    ) as error:  # some are broken on purpose, to test the parser
        broken = type(error).__name__
    return {"path": path, "lines": data.count(b"\n"), "tokens": dict(kinds), "broken": broken}


@app.task(topic="report")
def append(report: str, package: str, files: int, lines: int, tokens: int) -> None:
    """Add a row to the report. Two at once would mix their rows; the topic's limit of 1 keeps them apart."""
    with Path(report).open("a", encoding="utf-8") as file:
        for part in (f"{package:<32}", f"{files:>8,}", f"{lines:>12,}", f"{tokens:>14,}\n"):
            file.write(part)
            file.flush()


@app.task(topic="report")
def finish(report: str) -> dict[str, int]:
    """Read the rows back, add their sum below, and answer it."""
    rows = [line.split() for line in Path(report).read_text(encoding="utf-8").splitlines()[2:]]
    names = ("files", "lines", "tokens")
    sums = {
        name: sum(int(row[at].replace(",", "")) for row in rows)
        for at, name in enumerate(names, start=1)
    }
    append(report, "total", *sums.values())
    return {"packages": len(rows), **sums}


@app.task(topic="hoard", retries=0)
def hoard(folder: str) -> int:
    """Keep every token of every file in memory, far past the ceiling of taskqueue.yaml. It does not get to the end."""
    held = []
    for path in Path(folder).rglob("*.py"):
        with path.open("rb") as file, suppress(SyntaxError, tokenize.TokenError):
            held += list(tokenize.tokenize(file.readline))
    return len(held)
