"""The operator's words for failure: a wrong manifest, a state somebody must change, and try again later."""

from __future__ import annotations

from millgate.errors import InvalidInput, MillgateError


class InvalidSpec(InvalidInput):
    """A manifest cannot be used; the message names each field and what to write."""

    reason = "InvalidSpec"


class Blocked(MillgateError):
    """Nothing can be done until somebody changes something; it is looked at again now and then."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RetryLater(MillgateError):
    """A passing trouble; the same work is tried again."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
