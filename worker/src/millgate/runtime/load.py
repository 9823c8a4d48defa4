"""Imports the app that a worker is named: `package.module:attribute`. What is wrong is said in one line."""

from __future__ import annotations

import importlib

from millgate.errors import AppNotLoaded
from millgate.failure import describe
from millgate.hints import TYPE_CHECKING

if TYPE_CHECKING:
    from millgate.app import App


def load_app(path: str) -> App:
    """The app. Raises AppNotLoaded with the import's own error and where it came from."""
    from millgate.app import App

    module_name, _, attribute = path.partition(":")
    try:
        found = importlib.import_module(module_name)
    except BaseException as error:
        raise AppNotLoaded(
            f"cannot import {module_name!r}: {_where(error)}{_remedy(error, module_name)}"
        ) from error
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            near = getattr(found, "__dict__", {})
            apps = [name for name, value in near.items() if isinstance(value, App)]
            hint = f"; it has the app {', '.join(map(repr, apps))}" if apps else ""
            raise AppNotLoaded(
                f"module {module_name!r} has no {attribute!r}; --app is {path!r}{hint}"
            ) from None
    if not isinstance(found, App):
        raise AppNotLoaded(f"{path!r} is a {type(found).__name__}, not a millgate.App")
    return found


def check_tasks(app: App, path: str) -> None:
    """Raise AppNotLoaded for an app without tasks: most likely nobody imports the modules that declare them."""
    if not app.tasks:
        raise AppNotLoaded(
            f"{path!r} has no tasks; import the modules that declare them where the app is made, or in an on_start hook"
        )


def _remedy(error: BaseException, module_name: str) -> str:
    """What helps when the app's own module is not found, rather than one that it imports."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing == module_name and missing.endswith(".py"):
        return f"; write the module, not its file: {module_name.removesuffix('.py')}"
    if missing and f"{module_name}.".startswith(f"{missing}."):
        return "; install it, or put the folder that it lies in on PYTHONPATH"
    return ""


def _where(error: BaseException) -> str:
    """Class, message, and the innermost place of an import's error."""
    import traceback  # what it brings is only needed for an error

    name = type(error).__name__
    text = " ".join(describe(error).message.split())
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen ") and "importlib" not in frame.filename
    ]
    if isinstance(error, SyntaxError) and error.filename:
        return f"{name}: {error.msg} ({error.filename}:{error.lineno})"
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if len(frames) > 1 else ""
    return f"{name}: {text}{place}" if text else f"{name}{place}"
