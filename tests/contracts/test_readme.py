"""What the README and the other pages show can be done as shown: manifests parse, code runs, commands exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from millgate import App, cli, testing
from millgate.cli.console import Console
from millgate_operator.spec import TaskQueue, Topic, parse

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A command that stands alone, indented; it may be continued on the next line.
INDENTED = re.compile(r"^ {4}((?:make|millgate|kubectl|helm) [^\n]+)$", re.MULTILINE)
INLINE = re.compile(r"`((?:make|millgate|kubectl|helm) [^`\n]+)`")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [text for name, text in found if name == language]


def commands(page: Path) -> list[list[str]]:
    """Every command of the blocks and of the running text, in words, without prompt and comment."""
    lines = [
        line.removeprefix("$ ")
        for block in blocks(page, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    text = page.read_text(encoding="utf-8")
    lines += INDENTED.findall(FENCE.sub("", text)) + INLINE.findall(text)
    return [shlex.split(line, comments=True) for line in lines]


def documented(program: str) -> list[tuple[str, list[str]]]:
    """Page and words of every command of a program in any page."""
    return [
        (str(page.relative_to(ROOT)), words)
        for page in PAGES
        for words in commands(page)
        if words[0] == program
    ]


def help_of(*command: str) -> str | None:
    """What a command says of itself; None: there is none of that name."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = cli.main([*command, "--help"], Console(err=io.StringIO(), environ={}))
    return out.getvalue() if code == 0 else None


def test_the_readme_shows_manifests_code_and_commands() -> None:
    assert len(blocks(README, "yaml")) == 2
    assert len(blocks(README, "python")) == 2
    assert len(commands(README)) >= 6


def test_every_manifest_of_the_readme_is_one_that_the_operator_takes() -> None:
    read = [parse(yaml.safe_load(text), strict=True) for text in blocks(README, "yaml")]
    queue, topic = read
    assert isinstance(queue, TaskQueue)
    assert isinstance(topic, Topic)
    assert topic.spec.queue_ref.name == queue.meta.name


def test_the_code_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLGATE_BROKER", "memory://")
    declare, send = blocks(README, "python")
    page = ModuleType("hello.tasks")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    exec(compile(declare, "README.md", "exec"), page.__dict__)
    call, shown = send.split("#", 1)
    app = page.__dict__["app"]
    assert isinstance(app, App)
    with testing.eager(app):
        assert repr(eval(call.strip(), page.__dict__)) == shown.strip()


def test_the_readme_names_its_files_as_its_manifest_does() -> None:
    (spec,) = [
        parsed.spec
        for text in blocks(README, "yaml")
        if isinstance(parsed := parse(yaml.safe_load(text)), TaskQueue)
    ]
    assert spec.workers is not None
    module = spec.workers.app.partition(":")[0]
    assert blocks(README, "python")[0].startswith(f"# {module.replace('.', '/')}.py\n")


def test_every_make_target_that_a_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):.*##", makefile, re.MULTILINE))
    named = {(page, words[1]) for page, words in documented("make")}
    assert len(named) > 3
    assert {(page, name) for page, name in named if name not in targets} == set()


def test_commands_are_found_wherever_they_stand() -> None:
    worker = ROOT / "docs/guides/worker.md"
    assert any("--hard-max-rss" in words for words in commands(worker))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_chart_or_folder_that_helm_or_kubectl_is_given_exists(page: Path) -> None:
    for words in commands(page):
        for word in words if words[0] in ("helm", "kubectl") else ():
            if re.match(r"(?:examples|charts|crds)/", word):
                assert (ROOT / word).exists(), word


@pytest.mark.parametrize(
    ("page", "words"), documented("millgate"), ids=lambda value: " ".join(value)[:60]
)
def test_every_command_that_a_page_shows_exists_with_its_flags(page: str, words: list[str]) -> None:
    rest = [word for word in words[1:] if word != "--traceback"]
    if rest[0] in ("COMMAND", "--help"):
        return
    text = help_of(*rest[:2]) if rest[0] == "dead" and len(rest) > 1 else help_of(rest[0])
    assert text is not None, f"{page}: no command {rest[0]}"
    before = rest[: rest.index("--")] if "--" in rest else rest
    for flag in (word.partition("=")[0] for word in before if re.match(r"--?[a-z]", word)):
        assert re.search(rf"(?<![\w-]){flag}(?![\w-])", text), f"{page}: {rest[0]} has no {flag}"


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert help_of("nonsense") is None
    assert help_of("status") is not None


def test_every_path_that_the_readme_names_exists() -> None:
    for words in commands(README):
        for word in words:
            if re.fullmatch(r"(?:examples|charts)/\S+", word):
                assert (ROOT / word).exists(), word
