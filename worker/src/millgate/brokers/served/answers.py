"""Answers to calls as frames: a number and a value, or a number and an error's name and text. Pure."""

from __future__ import annotations

from typing import Any

from millgate import errors
from millgate.brokers.served import frames
from millgate.errors import BrokerError, MillgateError


def success(number: int, value: Any) -> bytes:
    """The frame for a value."""
    return frames.pack([number, value])


def failure(number: int, error: MillgateError) -> bytes:
    """The frame for an error."""
    return frames.pack([number, type(error).__name__, str(error)])


def opened(answer: list[Any]) -> Any:
    """The value of an answer. Raises the error that it names."""
    if len(answer) == 3:
        raise error(answer[1], answer[2])
    return answer[1]


def error(name: str, text: str) -> MillgateError:
    """The error of that name; a plain BrokerError for a name that this program does not know."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, MillgateError):
        return kind(text)
    return BrokerError(f"{name}: {text}")
