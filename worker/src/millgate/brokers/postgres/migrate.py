"""Brings a queue's schema to this program's version: numbered, forward only, once, whoever comes first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

import psycopg

from millgate.brokers.postgres.connection import Connection
from millgate.brokers.postgres.session import VERSION
from millgate.errors import SchemaTooNew
from millgate.frozen import dataclass
from millgate.queues import QueuePolicy, queue_to_dict

#: Plans must not depend on how full the tables were when a session first planned a statement: every step goes through
#: an index, and the plan is made once.
_PINS: Final = (
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "enable_bitmapscan = off",
    "plan_cache_mode = force_generic_plan",
    "jit = off",
)
#: Functions that the client calls; the others run inside these and inherit their settings.
ENTRIES: Final = (
    *("ensure", "fire", "fired", "group", "post", "publish", "schedules", "send"),
    *("claim", "extend", "progress", "register", "settle", "unregister"),
    *("await", "tend", "tick", "unawait", "upkeep", "keep", "forward", "forwards", "regate"),
    *("dead", "oldest", "peek", "states", "stats"),
    *("configuration", "configure", "fence", "pause", "unfence"),
    *("cancel", "purge", "purge_dead", "replay", "requeue"),
    *("acquire", "locks", "release_lock", "renew"),
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from version `number` - 1 to `number`: files of SQL, in order."""

    number: int
    files: tuple[tuple[str, str], ...]  # name, text

    @property
    def text(self) -> str:
        """The whole step."""
        return "\n".join(f"-- {name}\n{text}" for name, text in self.files)


def migrations() -> tuple[Migration, ...]:
    """All steps, oldest first."""
    return tuple(_migrations())


def stored_version(connection: psycopg.Connection[Any], schema: str) -> int:
    """The version of what is stored; 0: nothing is."""
    # a query, not to_regclass: that may answer from what this session looked up before it waited for the lock
    row = connection.execute(
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = 'meta'",
        [schema],
    ).fetchone()
    if row is None:
        return 0
    row = connection.execute(f'SELECT max(version) FROM "{schema}".meta').fetchone()  # noqa: S608 -- checked name
    return int(row[0] or 0) if row is not None else 0


def pending(stored: int, schema: str) -> tuple[Migration, ...]:
    """The steps that are missing. Raises SchemaTooNew."""
    if stored > VERSION:
        raise SchemaTooNew(
            f"schema {schema} has version {stored}, this program knows {VERSION}; upgrade it, it would corrupt the data"
        )
    return tuple(step for step in migrations() if step.number > stored)


def script(schema: str, steps: tuple[Migration, ...]) -> str:
    """What `migrate` carries out, for people to read or run themselves."""
    return "\n".join(
        f"{part.rstrip().rstrip(';')};" for part in ("BEGIN", *_parts(schema, steps), "COMMIT")
    )


def migrate(connection: Connection, schema: str) -> int:
    """Carry out the missing steps in one transaction; answers how many they were.

    Any number of programs may do this at once: one does the work, the others wait for it. Raises SchemaTooNew.
    """
    if not pending(stored_version(connection, schema), schema):
        return 0
    with connection.transaction():
        # one key for all queues of the database: CREATE SCHEMA and ALTER FUNCTION collide across schemas as well
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('millgate migrate', 0))")
        connection.execute("SET LOCAL statement_timeout = 0")
        steps = pending(stored_version(connection, schema), schema)
        if not steps:
            return 0
        for part in _parts(schema, steps):
            connection.execute(part.encode(), prepare=False)
        return len(steps)


def _parts(schema: str, steps: tuple[Migration, ...]) -> Iterator[str]:
    yield f'CREATE SCHEMA IF NOT EXISTS "{schema}"'
    yield f'SET LOCAL search_path = "{schema}", pg_temp'
    yield "SET LOCAL check_function_bodies = off"
    for step in steps:
        yield step.text
        yield f"INSERT INTO meta VALUES ({step.number})"  # noqa: S608 -- a number
    defaults = json.dumps(queue_to_dict(QueuePolicy())).replace("'", "''")
    yield f"UPDATE queue SET policy = '{defaults}' WHERE policy = '{{}}'"  # noqa: S608 -- our own values
    yield _pins(schema)


def _pins(schema: str) -> str:
    names = ", ".join(f"'{name}_{VERSION}'" for name in ENTRIES)
    settings = " ".join(f"SET {pin}" for pin in _PINS)
    return f"""DO $pin$
DECLARE
  f text;
BEGIN
  FOR f IN SELECT p.oid::regprocedure::text FROM pg_proc p
      WHERE p.pronamespace = '"{schema}"'::regnamespace AND p.proname IN ({names}) LOOP
    EXECUTE format('ALTER FUNCTION %s {settings} SET search_path = "{schema}", pg_temp', f);
  END LOOP;
END $pin$"""  # noqa: S608 -- checked names


def _migrations() -> Iterator[Migration]:
    folder = resources.files("millgate.brokers.postgres") / "migrations"
    for step in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if step.name.isdigit():
            files = sorted(step.iterdir(), key=lambda entry: entry.name)
            texts = tuple((file.name, file.read_text("utf-8")) for file in files)
            yield Migration(int(step.name), texts)
