"""Millgate runs background tasks: this package is the client, the brokers, the worker and the command line.

The names below are imported when they are first used, so that `import millgate` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own would cost the worker's guardian a megabyte
if TYPE_CHECKING:
    from typing import Any, Final

    from millgate.app import App
    from millgate.context import Context, current
    from millgate.errors import (
        LockBusy,
        LockLost,
        MillgateError,
        Reject,
        ResultMissing,
        ResultTimeout,
        Retry,
        SoftTimeout,
        TaskCancelled,
        TaskFailed,
    )
    from millgate.inject import Depends
    from millgate.message import Message
    from millgate.registered import register
    from millgate.result import Result, as_completed, gather, gather_async
    from millgate.retry import Backoff
    from millgate.task import Task
    from millgate.workflow import MemberFailed, Signature, chain, chord, group

__all__ = [
    "App",
    "Backoff",
    "Context",
    "Depends",
    "LockBusy",
    "LockLost",
    "MemberFailed",
    "Message",
    "MillgateError",
    "Reject",
    "Result",
    "ResultMissing",
    "ResultTimeout",
    "Retry",
    "Signature",
    "SoftTimeout",
    "Task",
    "TaskCancelled",
    "TaskFailed",
    "as_completed",
    "chain",
    "chord",
    "current",
    "gather",
    "gather_async",
    "group",
    "register",
]

_HOMES: Final = {
    "app": ("App",),
    "context": ("Context", "current"),
    "errors": (
        "LockBusy",
        "LockLost",
        "MillgateError",
        "Reject",
        "ResultMissing",
        "ResultTimeout",
        "Retry",
        "SoftTimeout",
        "TaskCancelled",
        "TaskFailed",
    ),
    "inject": ("Depends",),
    "message": ("Message",),
    "registered": ("register",),
    "result": ("Result", "as_completed", "gather", "gather_async"),
    "retry": ("Backoff",),
    "task": ("Task",),
    "workflow": ("MemberFailed", "Signature", "chain", "chord", "group"),
}
_HOME: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'millgate' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"millgate.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
