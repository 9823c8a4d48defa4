"""Images of servers for pods of tests, from Debian's packages: they run as an ordinary user on a read-only root."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from node import debian
from node.archive import Launch
from node.cache import Say
from node.debian import Recipe

USER = 10002
POSTGRES = "localhost/millgate-postgres:1"
REDIS = "localhost/millgate-redis:1"
RABBITMQ = "localhost/millgate-rabbitmq:1"
# the compiler of queries, and the database cluster that the package makes: half of the image
UNUSED = (
    "usr/lib/*/libLLVM*",
    "usr/lib/llvm*",
    "usr/lib/postgresql/*/lib/bitcode",
    "var/lib/postgresql/*",
)

# Data goes to /data, sockets and the like to /tmp: a pod mounts a volume at each.
POSTGRES_START = """\
#!/bin/sh
# Makes a database cluster in /data the first time, with the password that POSTGRES_PASSWORD holds; then serves it.
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
export PGDATA=/data/postgres
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  : "${POSTGRES_PASSWORD:?set it to the password of the user postgres}"
  printf '%s' "$POSTGRES_PASSWORD" >/tmp/password
  initdb --username=postgres --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 \\
    --encoding=UTF8 --locale=C.UTF-8 --no-sync >/dev/null
  rm /tmp/password
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
fi
exec postgres -c jit=off -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
"""
REDIS_START = """\
#!/bin/sh
# Serves /data, with the password that REDIS_PASSWORD holds, if any.
set -eu
exec redis-server --bind '*' --protected-mode no --dir /data --requirepass "${REDIS_PASSWORD:-}" "$@"
"""
RABBITMQ_START = """\
#!/bin/sh
# One node in /data, for the user millgate with the password that RABBITMQ_PASSWORD holds; its log is the pod's.
set -eu
: "${RABBITMQ_PASSWORD:?set it to the password of the user millgate}"
cat >/tmp/rabbitmq.conf <<END
listeners.tcp.default = 5672
default_user = millgate
default_pass = $RABBITMQ_PASSWORD
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
END
export RABBITMQ_NODENAME=rabbit@localhost RABBITMQ_CONFIG_FILE=/tmp/rabbitmq RABBITMQ_CONF_ENV_FILE=/tmp/absent
export RABBITMQ_MNESIA_BASE=/data/mnesia RABBITMQ_LOG_BASE=/tmp/log RABBITMQ_LOGS=-
export RABBITMQ_ENABLED_PLUGINS_FILE=/tmp/plugins RABBITMQ_ALLOW_INPUT=1
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-noinput
mkdir -p /tmp/log
exec /usr/lib/rabbitmq/bin/rabbitmq-server "$@"
"""


def postgres(say: Say) -> Path:
    """The archive of POSTGRES: port 5432, user and database postgres, password from POSTGRES_PASSWORD."""
    return debian.make(_recipe(POSTGRES, ("postgresql",), "postgres", POSTGRES_START), say)


def redis(say: Say) -> Path:
    """The archive of REDIS: port 6379, password from REDIS_PASSWORD."""
    return debian.make(_recipe(REDIS, ("redis-server",), "redis", REDIS_START), say)


def rabbitmq(say: Say) -> Path:
    """The archive of RABBITMQ: port 5672, user millgate, password from RABBITMQ_PASSWORD."""
    packages = ("rabbitmq-server",)
    return debian.make(_recipe(RABBITMQ, packages, "rabbitmq", RABBITMQ_START), say)


def _recipe(reference: str, names: tuple[str, ...], user: str, start: str) -> Recipe:
    launch = Launch(("/start",), env={"HOME": "/tmp", "LANG": "C.UTF-8"}, user=f"{USER}:{USER}")
    return Recipe(reference, names, launch, _finish(user, start), edition=2)


def _finish(user: str, start: str) -> Callable[[Path], None]:
    def finish(root: Path) -> None:
        script = root / "start"
        script.write_text(start)
        script.chmod(0o755)
        data = root / "data"
        data.mkdir(exist_ok=True)
        data.chmod(0o777)
        for pattern in UNUSED:
            for path in root.glob(pattern):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        # a server refuses a user without a name; the package's own has a number that differs from build to build
        for name, line in (
            ("passwd", f"{user}:x:{USER}:{USER}::/tmp:/bin/sh"),
            ("group", f"{user}:x:{USER}:"),
        ):
            path = root / "etc" / name
            kept = [old for old in path.read_text().splitlines() if not old.startswith(f"{user}:")]
            path.write_text("\n".join([*kept, line]) + "\n")

    return finish
