"""The queue's configuration as this worker has read it last: a new revision is read when any answer names one."""

from __future__ import annotations

from millgate.brokers.base import Broker
from millgate.queues import Configuration, TopicPolicy


class Policies:
    """Thread-safe."""

    def __init__(self) -> None:
        # what was read, and what was found in it: one value, so that nothing of an older one is kept with a newer one
        self._known: tuple[Configuration, dict[str, TopicPolicy]] = (Configuration(), {})

    @property
    def revision(self) -> int:
        """The revision that was read."""
        return self._known[0].revision

    def refresh(self, broker: Broker) -> None:
        """Read it. Raises BrokerError."""
        self._known = (broker.configuration(), {})

    def of(self, topic: str) -> TopicPolicy:
        """The policy of a topic."""
        configuration, policies = self._known
        found = policies.get(topic)
        if found is None:
            found = policies[topic] = configuration.policy(topic)
        return found
