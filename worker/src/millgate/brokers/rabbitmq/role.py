"""How one queue's brokerd is run, and where it stands. Pure."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from millgate.brokers.rabbitmq.url import Target
from millgate.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Brokerd:
    """How one queue's process is run."""

    target: Target
    queue: str
    #: Seconds without a call after which it ends; None: it goes on.
    idle: float | None = None
    #: Whether it waits for its turn when another process has the queue, and for a server that is not there.
    patient: bool = True


class Standing(StrEnum):
    """Where a brokerd stands."""

    AWAY = "away"  # without a connection
    WAITING = "waiting"  # for its turn: another process has the queue
    SERVING = "serving"


#: Is told where a brokerd stands, with every change and sometimes between.
Tell = Callable[[Standing], None]
