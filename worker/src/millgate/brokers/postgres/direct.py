"""One function called straight through libpq: of a call so short most of the cost would be the driver's conversions.

The connection stays the driver's, with its deadline and its errors; only values in PostgreSQL's binary form pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import errors, generators
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from millgate.brokers.postgres.connection import Connection

_ELEMENT: Final = 24  # bytes before the first element's own


class Direct:
    """A statement of `count` parameters that answers one row."""

    def __init__(self, statement: str, count: int) -> None:
        self._statement = statement.encode()
        self._formats = [int(Format.BINARY)] * count

    def call(self, connection: Connection, values: Sequence[bytes | None]) -> list[bytes | None]:
        """The columns of the row; None is NULL. Raises psycopg's errors, Expired."""
        try:
            result = self._sent(connection, values)
        except errors.InvalidSqlStatementName:
            # the driver forgets all that a session has prepared when it rolls back, ours with its own
            connection.prepared.clear()
            result = self._sent(connection, values)
        return [result.get_value(0, column) for column in range(result.nfields)]

    def _sent(self, connection: Connection, values: Sequence[bytes | None]) -> PGresult:
        server = connection.pgconn
        if connection.pooled:  # what one call prepared, another server may have to carry out
            server.send_query_params(
                self._statement, values, None, self._formats, result_format=Format.BINARY
            )
        else:
            name = connection.prepared.get(self._statement) or self._prepare(connection)
            server.send_query_prepared(name, values, self._formats, Format.BINARY)
        return _result(connection, ExecStatus.TUPLES_OK)

    def _prepare(self, connection: Connection) -> bytes:
        name = b"millgate_%d" % len(connection.prepared)
        connection.pgconn.send_prepare(name, self._statement)
        _result(connection, ExecStatus.COMMAND_OK)
        connection.prepared[self._statement] = name
        return name


def _result(connection: Connection, wanted: ExecStatus) -> PGresult:
    """The answer to what was sent."""
    result: PGresult = connection.wait(generators.execute(connection.pgconn))[-1]
    if result.status != wanted:
        raise errors.error_from_result(result)
    return result


def only_text(array: bytes | None) -> str | None:
    """The element of a text[] that has one: behind the array's header its length, then the text; None: it has none."""
    return array[_ELEMENT:].decode() if array is not None and len(array) > _ELEMENT else None
