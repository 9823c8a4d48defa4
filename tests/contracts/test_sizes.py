"""Budgets: what no longer fits in a head is cut before it is merged."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path for folder in ("worker/src", "operator/src") for path in (ROOT / folder).rglob("*.py")
)
#: What servers run.
SCRIPTS = sorted(
    path for suffix in ("lua", "sql") for path in (ROOT / "worker/src").rglob(f"*.{suffix}")
)
MODULE_LINES = 400
FUNCTION_LINES = 40
NAMES_FOR_THE_UNKNOWN = {"utils", "util", "helpers", "common", "misc", "manager"}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, its docstring not counted."""
    end = function.end_lineno or function.lineno
    doc = function.body[0]
    docstring = 0
    if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant):
        docstring = (doc.end_lineno or doc.lineno) - doc.lineno + 1
    return end - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_fits_its_budget(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert text.count("\n") <= MODULE_LINES, "split it: one file, one noun or verb"
    assert path.stem not in NAMES_FOR_THE_UNKNOWN, "name it for what it does"
    if text.strip():
        assert ast.get_docstring(tree), "say in one sentence what the module is responsible for"
    long = {function.name: lines(function) for function in functions(tree)}
    assert {name: count for name, count in long.items() if count > FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_fits_its_budget(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MODULE_LINES, "split it: one file, one noun or verb"
    assert path.stem not in NAMES_FOR_THE_UNKNOWN, "name it for what it does"
    assert text.startswith("-- "), "say in its first line what it is responsible for"
