"""Importing an app: found, or one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from millgate.errors import AppNotLoaded
from millgate.runtime.load import load_app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_an_app_is_found_also_as_an_attribute_of_an_attribute(folder: Path) -> None:
    (folder / "shop_one.py").write_text(
        "from millgate import App\nclass site:\n    app = App('memory://')\n", encoding="utf-8"
    )
    assert load_app("shop_one:site.app").tasks == {}


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [
        (
            "bad_import",
            "import nowhere_at_all\n",
            "ModuleNotFoundError: No module named 'nowhere_at_all'",
        ),
        ("bad_syntax", "x = = 1\n", "bad_syntax.py:1"),
        ("bad_raise", "def f():\n    raise KeyError('k')\nf()\n", "bad_raise.py:2"),
        ("bad_exit", "raise SystemExit\n", "SystemExit"),
        ("bad_kind", "app = object()\n", "not a millgate.App"),
        ("bad_name", "apple = 1\n", "has no 'app'"),
        (
            "other_name",
            "from millgate import App\ncelery = App('memory://')\n",
            "has no 'app'; --app is 'other_name:app'; it has the app 'celery'",
        ),
    ],
)
def test_what_is_wrong_is_one_line(folder: Path, name: str, source: str, words: str) -> None:
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    with pytest.raises(AppNotLoaded) as caught:
        load_app(f"{name}:app")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_does_not_exist_is_named(folder: Path) -> None:
    with pytest.raises(AppNotLoaded, match="no_module_here"):
        load_app("no_module_here:app")


def test_an_app_that_is_nowhere_comes_with_the_remedy_and_a_missing_import_of_it_does_not(
    folder: Path,
) -> None:
    with pytest.raises(AppNotLoaded, match="or put the folder that it lies in on PYTHONPATH"):
        load_app("shop_nowhere.tasks:app")
    (folder / "shop_partly.py").write_text("import nowhere_at_all\n", encoding="utf-8")
    with pytest.raises(AppNotLoaded) as raised:
        load_app("shop_partly:app")
    assert "PYTHONPATH" not in str(raised.value)


def test_a_file_in_place_of_a_module_is_told_what_to_write(folder: Path) -> None:
    (folder / "shop_file.py").write_text("app = 5\n", encoding="utf-8")
    with pytest.raises(AppNotLoaded, match=r"write the module, not its file: shop_file$"):
        load_app("shop_file.py:app")
