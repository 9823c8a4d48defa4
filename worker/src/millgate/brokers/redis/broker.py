"""The Redis broker: every verb one script in the server, whose clock decides; all keys of a queue in one hash slot."""

from __future__ import annotations

from millgate.brokers.base import Server
from millgate.brokers.redis.publishing import Publishing
from millgate.brokers.redis.session import SCHEMA
from millgate.brokers.redis.steering import Steering
from millgate.brokers.redis.waiting import Waiting


class RedisBroker(Publishing, Waiting, Steering):
    """One queue under one key prefix."""

    def setup(self) -> None:
        """Check the server and the user's rights, and make the queue unless it is there."""
        self.prepare()

    def server(self) -> Server:
        """What is behind this connection."""
        self.pool.call("ping", ("PING",))
        health = self.pool.health
        assert health is not None, "checked with the connection that was used just now"
        return Server(
            kind="redis",
            endpoint=self.target.endpoint,
            version=health.version,
            schema=SCHEMA,
            detail={
                "product": health.product,
                "mode": health.mode,
                "persistence": health.persistence,
                "replicas": health.replicas,
                "prefix": self.target.prefix,
            },
        )
