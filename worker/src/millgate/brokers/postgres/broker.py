"""The PostgreSQL broker: one schema per queue, every verb one transaction, the server's clock deciding."""

from __future__ import annotations

from millgate.brokers.base import Server
from millgate.brokers.postgres.connection import Connection
from millgate.brokers.postgres.migrate import migrate, pending, script, stored_version
from millgate.brokers.postgres.publishing import Publishing
from millgate.brokers.postgres.session import VERSION
from millgate.brokers.postgres.steering import Steering
from millgate.brokers.postgres.waiting import Waiting


class PostgresBroker(Publishing, Waiting, Steering):
    """One queue in one schema."""

    def setup(self) -> None:
        """Create or migrate the schema; safe when many do it at once."""
        self.pool.call(lambda *_: None)  # a server that is away is met within the usual deadline
        self.pool.call(lambda connection, _: migrate(connection, self.target.schema))

    def pending_migration(self) -> str:
        """What `setup` would carry out, as SQL; empty when nothing is missing. Raises SchemaTooNew."""
        schema = self.target.schema

        def look(connection: Connection, _: bool) -> str:
            steps = pending(stored_version(connection, schema), schema)
            return script(schema, steps) if steps else ""

        return self.pool.call(look)

    def server(self) -> Server:
        """What is behind this connection."""

        def look(connection: Connection, _: bool) -> Server:
            number = connection.info.server_version
            stored = stored_version(connection, self.target.schema)
            oldest = self.run(connection, "oldest", ())[0][0] if stored == VERSION else None
            return Server(
                kind="postgres",
                endpoint=self.target.endpoint,
                version=f"{number // 10000}.{number % 10000}",
                schema=stored,
                detail={
                    "schema": self.target.schema,
                    "pooler": self.pool.pooled,
                    # seconds; beside it nothing dead can be removed. None: not known
                    "oldest_transaction": oldest,
                },
            )

        return self.pool.call(look)
