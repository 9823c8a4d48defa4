"""Where the records of a task's own logger go when the app has set up no logging: to standard error, which the worker
shows under the task's id. An app's own handlers get them otherwise, and decide themselves."""

from __future__ import annotations

import logging
import sys

_ROOT = "millgate.task"


class _Plain(logging.Handler):
    """Silent as soon as somebody else listens."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            sys.stderr.write(f"{record.levelname} {self.format(record)}\n")


def logger(task: str) -> logging.Logger:
    """The logger of a task."""
    root = logging.getLogger(_ROOT)
    if not root.handlers and not logging.getLogger().handlers:
        root.addHandler(_Plain())
        if root.level == logging.NOTSET:
            root.setLevel(logging.INFO)
    return logging.getLogger(f"{_ROOT}.{task}")
