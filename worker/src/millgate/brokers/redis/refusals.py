"""The server's errors → Millgate's, and whether to try again: each says what happened and what to do."""

from __future__ import annotations

import re
from functools import partial
from typing import Final, NamedTuple

from millgate.errors import (
    AuthFailed,
    BrokerError,
    BrokerRefused,
    BrokerUnavailable,
    ForeignPeer,
    InvalidInput,
    MillgateError,
    PayloadTooLarge,
    PermissionMissing,
    QueueFull,
    SchemaTooNew,
    TopicUndeclared,
    UnsafeServer,
)
from millgate.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an error means. `again`: the call had no effect and may be repeated; `elsewhere`: on another connection."""

    error: MillgateError
    again: bool = False
    elsewhere: bool = False


class _Meaning(NamedTuple):
    """What a word of the server's means; `again` and `elsewhere` as in Verdict."""

    kind: type[MillgateError]
    advice: str
    again: bool = False
    elsewhere: bool = False


_away = partial(_Meaning, BrokerUnavailable, again=True)
#: First word of the server's answer → what it means.
_WORDS: Final[dict[str, _Meaning]] = {
    "NOSCRIPT": _away("the server forgot a script while it was loaded"),
    "LOADING": _away("the server is loading its data"),
    "BUSY": _away("a script of somebody's has held the server for seconds; SCRIPT KILL ends it"),
    "NOREPLICAS": _away("fewer replicas are connected than min-replicas-to-write demands"),
    "MISCONF": _away(
        "the server refuses writes because its snapshot failed; make room on its disk"
    ),
    "MASTERDOWN": _away("a replica has lost its master", elsewhere=True),
    "CLUSTERDOWN": _away("the Cluster does not serve all slots", elsewhere=True),
    "TRYAGAIN": _away("the Cluster is moving our slot", elsewhere=True),
    "ASK": _away("the Cluster is moving our slot", elsewhere=True),
    "MOVED": _away("the Cluster has moved our slot", elsewhere=True),
    "UNBLOCKED": _away("the server is a replica now", elsewhere=True),
    "READONLY": _Meaning(
        UnsafeServer,
        "the server is a read-only replica; connect to the master, for instance by redis+sentinel://",
        again=True,
        elsewhere=True,
    ),
    "NOAUTH": _Meaning(AuthFailed, "the server wants a password; put it into the URL"),
    "WRONGPASS": _Meaning(AuthFailed, "the server refused the credentials"),
    "WRONGTYPE": _Meaning(
        BrokerRefused,
        "a key with a name of ours is of another kind; somebody else writes under our prefix",
    ),
    "OOM": _Meaning(
        QueueFull,
        "the server is out of memory (maxmemory); nothing of this call was stored. Raise maxmemory, or let "
        "workers finish: settlements still pass",
    ),
}
#: Codes of our own scripts.
_OURS: Final[dict[str, type[MillgateError]]] = {
    "MGFULL": QueueFull,
    "MGSIZE": PayloadTooLarge,
    "MGUNDECLARED": TopicUndeclared,
    "MGINVALID": InvalidInput,
    "MGFOREIGN": ForeignPeer,
    "MGNEWER": SchemaTooNew,
}
_CODE: Final = re.compile(r"\b(MG[A-Z]+) ?(.*)", re.DOTALL)
#: How servers say inside a script that the user may not.
_FORBIDDEN: Final = ("can't run this command", "can't access at least one", "has no permissions")
_COMMAND: Final = re.compile(r"run the '([^']+)'")


def judge(text: str, endpoint: str, verb: str) -> Verdict:
    """What the server's error text means for a call of `verb`."""
    ours = _CODE.search(text)
    if ours and ours[1] in _OURS:
        return Verdict(_our_own(ours[1], ours[2]))
    word = text.split(" ", 1)[0]
    if word in ("ERR", "EXECABORT"):
        word = _inner(text) or word
    if word in _WORDS:
        found = _WORDS[word]
        error = found.kind(f"{endpoint}: {found.advice} ({text})")
        return Verdict(error, found.again, found.elsewhere)
    if word == "NOPERM" or any(said in text for said in _FORBIDDEN):
        return Verdict(_missing(text, endpoint, verb))
    if "invalid password" in text or "without any password configured" in text:
        return Verdict(AuthFailed(f"{endpoint}: the server refused the credentials ({text})"))
    if "DB index is out of range" in text or "SELECT is not allowed" in text:
        return Verdict(BrokerRefused(f"{endpoint}: that database does not exist ({text})"))
    return Verdict(BrokerError(f"{endpoint}: {verb}: {text}"))


def _our_own(code: str, said: str) -> MillgateError:
    said = re.sub(r" script: [0-9a-f]{40}.*$", "", said, flags=re.DOTALL)
    if code == "MGSIZE":
        said += "; send a reference instead of the data"
    if code == "MGUNDECLARED":
        said = f"topic {said!r} is not declared in this queue"
    return _OURS[code](said)


def _inner(text: str) -> str | None:
    """The word of an error that was raised inside a script, as older servers wrap it."""
    found = re.search(r"\b(OOM|READONLY|MISCONF|NOREPLICAS|WRONGTYPE|LOADING|MASTERDOWN)\b", text)
    return found[1] if found else None


def _missing(text: str, endpoint: str, verb: str) -> PermissionMissing:
    command = _COMMAND.search(text)
    if "key" in text.lower() and command is None and "command" not in text:
        right = "the keys of the queue: ~mg:{QUEUE}:*"
    elif command is not None:
        right = f"+{command[1]}"
    else:
        right = "every command that the verbs use; setup() names those that are missing"
    return PermissionMissing(f"{endpoint}: {verb}: the user may not; grant {right} ({text})")
