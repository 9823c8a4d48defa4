"""Counts the tokens of Python's standard library: one task a file, and a report at the end.

    millgate dev -f examples/quickstart --once driver.py

Ends with 0 only if every file was counted, which an independent count made here decides.
"""

from __future__ import annotations

import argparse
import os
import sys
import sysconfig
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tasks

from millgate import TaskFailed, as_completed

ROOT = Path(sysconfig.get_path("stdlib"))
HEAD = f"{'package':<32}{'files':>8}{'lines':>12}{'tokens':>14}\n{'-' * 66}\n"


def sources(limit: int | None) -> list[str]:
    """Every source file of the standard library, or the first `limit` of them."""
    others = {"site-packages", "dist-packages"}
    found = [path for path in ROOT.rglob("*.py") if not others & set(path.parts)]
    return sorted(map(str, found))[:limit]


def package(path: str) -> str:
    """The top-level package that a file belongs to."""
    first = Path(path).relative_to(ROOT).parts[0]
    return "(modules)" if first.endswith(".py") else first


def independent_count(limit: int | None) -> tuple[int, int]:
    """Files and lines, found and counted in another way: by os.walk, and by splitting."""
    files: dict[str, int] = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ("site-packages", "dist-packages")]
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)  # noqa: PTH118 -- not as above, on purpose
                with open(path, "rb") as file:  # noqa: PTH123
                    files[path] = len(file.read().split(b"\n")) - 1
    chosen = sorted(files)[:limit]
    return len(chosen), sum(files[path] for path in chosen)


def counted(paths: list[str]) -> Iterator[dict[str, Any]]:
    """Queue one task a file, in one go, and yield the counts as they come in."""
    handles = tasks.count.send_many([(path,) for path in paths])
    print(f"{len(handles):,} files of {ROOT} are queued")
    for handle in as_completed(handles, timeout=300):
        yield handle.result()


def main() -> int:
    """Count, report, compare; without --report the report goes with the run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, help="only so many files")
    parser.add_argument("--report", type=Path, help="where to write the report")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millgate-demo-") as folder:
        return run(options.report or Path(folder, "report.txt"), options.files)


def run(report: Path, limit: int | None) -> int:
    """The exit code: 0 only if everything was counted and the greedy task was stopped."""
    report.write_text(HEAD, encoding="utf-8")

    greedy = tasks.hoard.send(str(ROOT))  # wants some gigabytes, and will not get far
    paths = sources(limit)
    missing = Counter(map(package, paths))
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    appended = []
    for count in counted(paths):
        name = package(count["path"])
        rows[name].update(files=1, lines=count["lines"], tokens=sum(count["tokens"].values()))
        missing[name] -= 1
        if not missing[name]:  # the package is complete: add its row
            row = rows[name]
            appended.append(
                tasks.append.send(str(report), name, row["files"], row["lines"], row["tokens"])
            )
    for handle in appended:
        handle.result(timeout=60)
    total = tasks.finish.send(str(report)).result(timeout=60)

    print(report.read_text(encoding="utf-8"))
    files, lines = independent_count(limit)
    same = (total["files"], total["lines"]) == (files, lines)
    print(f"counted by tasks: {total['files']:,} files, {total['lines']:,} lines")
    print(
        f"counted here:     {files:,} files, {lines:,} lines: {'the same' if same else 'ANOTHER'}"
    )
    try:
        greedy.result(timeout=60)
    except TaskFailed as failure:
        print(f"the greedy task was stopped, and it alone: {failure}")
        return 0 if same else 1
    print("the greedy task was not stopped")
    return 1


if __name__ == "__main__":
    sys.exit(main())
