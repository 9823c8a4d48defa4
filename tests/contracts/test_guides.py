"""The guides are programs: what they show is run, block after block, as a reader would."""

from __future__ import annotations

import re
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest

from millgate import App, testing

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDES = {path.stem: path for path in sorted((ROOT / "docs" / "guides").glob("*.md"))}


def blocks(guide: Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the line before its first one."""
    text = guide.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start(1)), found[1]) for found in BLOCK.finditer(text)]


def run(guide: Path, page: ModuleType) -> int:
    """Run a page in one namespace; once it has an app, what it sends runs at once. The number of tests it defined."""
    with ExitStack() as around:
        for line, source in blocks(guide):
            code = compile("\n" * line + source, str(guide), "exec")
            known = page.__dict__.get("app")
            exec(code, page.__dict__)
            app = page.__dict__.get("app")
            if isinstance(app, App) and app is not known:
                around.enter_context(testing.eager(app))
    tests = [value for name, value in vars(page).items() if name.startswith("test_")]
    for test in tests:
        test()
    return len(tests)


@pytest.mark.parametrize("name", [name for name, path in GUIDES.items() if blocks(path)])
def test_a_guide_does_what_it_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLGATE_BROKER", "memory://")
    page = ModuleType(f"guide_{name}")
    monkeypatch.setitem(sys.modules, page.__name__, page)  # dataclasses look their module up
    run(GUIDES[name], page)


def test_the_guide_to_tasks_shows_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLGATE_BROKER", "memory://")
    page = ModuleType("guide_shown")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    assert run(GUIDES["tasks"], page) == 3


def test_a_page_that_is_wrong_fails(tmp_path: Path) -> None:
    guide = tmp_path / "wrong.md"
    guide.write_text("```python\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError):
        run(guide, ModuleType("wrong"))
