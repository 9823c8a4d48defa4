"""An exception as text that any store can keep: bounded, escaped, and written even if the exception resists."""

from __future__ import annotations

import re
from collections import deque
from types import TracebackType

from millgate.hints import Final
from millgate.outcome import Failure

MAX_MESSAGE: Final = 4096  # characters
MAX_TRACEBACK: Final = 16384
_MAX_LINE: Final = 1000
_HERE: Final = __file__.removesuffix("failure.py")
_FRAMES: Final = 50  # the innermost ones
#: Control characters but for tab and newline, and lone surrogates: stores refuse them, terminals obey them.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def describe(error: BaseException) -> Failure:
    """What is worth knowing of `error`. Never raises, whatever its `__str__` does."""
    try:
        return Failure(name_of(type(error)), _message(error), _traceback(error))
    except BaseException as trouble:  # noqa: BLE001 -- the failure path must not fail
        return Failure(name_of(type(error)), f"<cannot be described: {name_of(type(trouble))}>")


def name_of(cls: type) -> str:
    """The qualified name of a class, without the noise of `builtins`."""
    try:
        module, name = str(cls.__module__), str(cls.__qualname__)
    except Exception:  # noqa: BLE001 -- a metaclass may do anything
        return "<unnamed class>"
    return clean(name if module == "builtins" else f"{module}.{name}", 200)


def clean(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, what stores refuse written as escapes."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return _UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", cut)


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as trouble:  # noqa: BLE001 -- user code, it may even exit
        return f"<its __str__ raised {name_of(type(trouble))}>"
    return clean(text, MAX_MESSAGE)


def _traceback(error: BaseException) -> str:
    """The end of the traceback: long lines are cut, and the earliest lines are left out first."""
    try:
        from traceback import TracebackException

        report = TracebackException(type(error), error, _users_part(error), limit=-_FRAMES)
        kept: deque[str] = deque()
        size = 0
        for chunk in report.format():
            for line in chunk.splitlines():
                kept.append(clean(line, _MAX_LINE))
                size += len(kept[-1]) + 1
                while size > MAX_TRACEBACK:
                    size -= len(kept.popleft()) + 1
        return "\n".join(kept)
    except BaseException as trouble:  # noqa: BLE001 -- too little memory, too deep a stack, a hostile class
        return f"<no traceback: {name_of(type(trouble))}>"


def _users_part(error: BaseException) -> TracebackType | None:
    """The traceback without the frames through which Millgate came to the user's code; whole if there is none."""
    part = error.__traceback__
    while part is not None and part.tb_frame.f_code.co_filename.startswith(_HERE):
        part = part.tb_next
    return part or error.__traceback__
