"""Where a brokerd on RabbitMQ stands, told to probes and scrapers over HTTP."""

from __future__ import annotations

from typing import Any

from millgate.brokers.rabbitmq.role import Standing
from millgate.runtime.health import Answers, Health


class Post:
    """The place of one brokerd. It is ready once it has served or stood by: what comes later heals by itself."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._standing = Standing.AWAY
        self._arrived = False
        self._turns = 0  # times it came to serve
        self._health: Health | None = None

    def take(self, standing: Standing) -> None:
        """Be told where the brokerd stands now."""
        self._turns += standing is Standing.SERVING and self._standing is not Standing.SERVING
        self._arrived = self._arrived or standing is not Standing.AWAY
        self._standing = standing

    def listen(self, address: str) -> int:
        """Answer on `address` from now on; the port. Raises InvalidSettings when it cannot be listened on."""
        answers = Answers(lambda: None, self.unready, self.metrics, self.status)
        self._health = Health(address, answers)
        self._health.start()
        return self._health.port

    def unready(self) -> str | None:
        """What keeps it from its place; None: nothing."""
        return None if self._arrived else "no connection to RabbitMQ yet; the log says why"

    def status(self) -> dict[str, Any]:
        """What it does, as JSON has it."""
        return {"queue": self._queue, "standing": str(self._standing), "turns": self._turns}

    def metrics(self) -> str:
        """The same for Prometheus."""
        serving = int(self._standing is Standing.SERVING)
        return (
            "# HELP millgate_brokerd_serving 1 in the process that serves the queue, 0 where one stands by.\n"
            "# TYPE millgate_brokerd_serving gauge\n"
            f'millgate_brokerd_serving{{queue="{self._queue}"}} {serving}\n'
            "# HELP millgate_brokerd_turns_total Times that this process came to serve the queue.\n"
            "# TYPE millgate_brokerd_turns_total counter\n"
            f'millgate_brokerd_turns_total{{queue="{self._queue}"}} {self._turns}\n'
        )
