"""Opens a broker by its URL; the driver behind a scheme is imported only then."""

from __future__ import annotations

import re
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from millgate.brokers.base import DEADLINE
from millgate.errors import BrokerUnavailable, InvalidSettings
from millgate.shortage import of_files

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from millgate.brokers.base import Broker

#: URL scheme → module with `open(url, queue, deadline) -> Broker`, and the extra that brings its driver.
SCHEMES: Final = {
    "memory": ("millgate.brokers.memory", ""),
    "local": ("millgate.brokers.local", ""),
    "postgres": ("millgate.brokers.postgres", "postgres"),
    "postgresql": ("millgate.brokers.postgres", "postgres"),
    "redis": ("millgate.brokers.redis", "redis"),
    "rediss": ("millgate.brokers.redis", "redis"),
    "redis+sentinel": ("millgate.brokers.redis", "redis"),
    "amqp": ("millgate.brokers.rabbitmq", "rabbitmq"),
    "amqps": ("millgate.brokers.rabbitmq", "rabbitmq"),
}

#: Seconds of the longest deadline of a call: the system can be told to wait for 24 days.
MAX_DEADLINE: Final = 86_400.0
#: A queue of its own on a shared server.
QUEUE_NAME: Final = re.compile(r"^[a-z0-9][a-z0-9._-]{0,62}\Z")
DEFAULT_QUEUE: Final = "millgate"
_PASSWORD: Final = re.compile(r"((?:^|&)[^=&]*(?:password|secret|key)=)[^&]*", re.IGNORECASE)


def open_broker(
    url: str,
    *,
    queue: str = DEFAULT_QUEUE,
    deadline: float = DEADLINE,
    shared: MutableMapping[Any, Any] | None = None,
) -> Broker:
    """The broker behind `url`; nothing is connected before the first verb.

    `queue` separates queues that share a server: it names the schema, the key prefix or the prefix of queue names.
    `deadline` is the most seconds that one call may take, a day at most. Raises InvalidSettings for a URL that names no
    broker, BrokerUnavailable where this process can open nothing more.
    `shared`: a mapping, such as a WeakValueDictionary, in which drivers that can put the connections of brokers that
    have a server in common. For whoever looks at many queues, not for workers.
    """
    queue_name(queue)
    if not 0 < deadline <= MAX_DEADLINE:
        raise InvalidSettings(f"deadline of {deadline:g}s: more than 0, a day at most")
    scheme = url.partition(":")[0].lower()
    if scheme not in SCHEMES:
        known = ", ".join(
            f"{name}://" for name, (module, _) in SCHEMES.items() if find_spec(module)
        )
        raise InvalidSettings(f"broker URL {redact(url)!r}: unknown scheme; use one of {known}")
    with driver_of(scheme):
        module = import_module(SCHEMES[scheme][0])
        open_shared = getattr(module, "open_shared", None)
        try:
            broker: Broker = (
                module.open(url, queue, deadline)
                if shared is None or open_shared is None
                else open_shared(url, queue, deadline, shared)
            )
        except OSError as error:
            raise BrokerUnavailable(f"{redact(url)}: {of_files(error) or error}") from error
    return broker


@contextmanager
def driver_of(scheme: str) -> Iterator[None]:
    """Around what imports the driver of a scheme. Raises InvalidSettings, saying what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("millgate."):
            raise InvalidSettings(
                f"{scheme}:// is not available in this version of Millgate"
            ) from error
        raise InvalidSettings(
            f"{scheme}:// needs a driver: pip install 'millgate[{SCHEMES[scheme][1]}]'"
        ) from error


def queue_name(text: str) -> str:
    """The name, when it can be a queue's. Raises InvalidSettings."""
    if not QUEUE_NAME.match(text):
        raise InvalidSettings(
            f"queue {text!r}: use 1 to 63 of a-z, 0-9, '.', '_' and '-', a letter or digit first"
        )
    return text


def redact(url: str) -> str:
    """The URL without its passwords, for logs, events and errors; of one whose parts are in doubt only the scheme and
    what follows the last "@"."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    if parts is None or (parts.netloc and "@" in parts.path + parts.query + parts.fragment):
        scheme, separator, rest = url.partition("://")
        return f"{scheme}{separator}***@{rest.rpartition('@')[2]}"
    query = _PASSWORD.sub(r"\1***", parts.query)
    netloc = parts.netloc
    if "@" in netloc:
        userinfo, _, host = netloc.rpartition("@")
        user, colon, _ = userinfo.partition(":")
        netloc = f"{user}{':***' if colon else ''}@{host}"
    shown = parts._replace(netloc=netloc, query=query).geturl()
    if url.startswith(f"{parts.scheme}://") and not netloc:  # which urlsplit forgets: local:///path
        return f"{parts.scheme}://{shown.partition(':')[2].removeprefix('//')}"
    return shown
