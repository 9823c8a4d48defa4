"""The queue's configuration as this worker has read it last: a new revision is read when any answer names one."""

from __future__ import annotations

import threading

from millgate.brokers.base import Broker
from millgate.queues import Configuration, TopicPolicy


class Policies:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._configuration = Configuration()
        self._policies: dict[str, TopicPolicy] = {}

    @property
    def revision(self) -> int:
        """The revision that was read."""
        return self._configuration.revision

    def refresh(self, broker: Broker) -> None:
        """Read it. Raises BrokerError."""
        configuration = broker.configuration()
        with self._lock:
            self._configuration, self._policies = configuration, {}

    def of(self, topic: str) -> TopicPolicy:
        """The policy of a topic."""
        found = self._policies.get(topic)
        if found is None:
            found = self._policies[topic] = self._configuration.policy(topic)
        return found
