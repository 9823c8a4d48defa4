"""Claims whose answer never came. The worker's next claim goes under the same number, and is answered with what the
first was given and is still held: nothing waits for its lease to lapse, and no loss is counted for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from millgate.errors import BrokerUnavailable, MillgateError
from millgate.fleet import WorkerRef

Number = TypeVar("Number")


class Unanswered(Generic[Number]):
    """The numbers under which claims go out."""

    def __init__(self, draw: Callable[[], Number]) -> None:
        """`draw` makes a number that no other call has."""
        self._draw = draw
        self._open: dict[WorkerRef, Number] = {}

    @contextmanager
    def claim(self, worker: WorkerRef) -> Iterator[tuple[Number, bool]]:
        """The number of one call, which is made inside, and whether an earlier call of this number went unanswered."""
        known = self._open.pop(worker, None)
        number = self._draw() if known is None else known
        try:
            yield number, known is not None
        except BaseException as error:
            refused = isinstance(error, MillgateError) and not isinstance(error, BrokerUnavailable)
            if not refused:  # it may have been carried out
                self._open[worker] = number
            raise
