"""How the two sides of a connection come to trust each other: four frames, as pure functions from frame to frame.

Client: magic, version, challenge. Server: magic, version, challenge, proof. Client: proof, its id, its queue.
Server: welcome. In place of any of its frames the server may refuse, with the error's name and text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from millgate.brokers.local import key
from millgate.brokers.served import answers, frames
from millgate.brokers.served.caller import Caller
from millgate.errors import (
    AuthFailed,
    ForeignPeer,
    MillgateError,
    NotDecodable,
    VersionUnsupported,
)

MAGIC: Final = "millgate-local"
#: Version of frames, verbs and values; both sides must have the same.
PROTOCOL: Final = 1
_WELCOME: Final = "welcome"
_REFUSED: Final = "refused"
_LONGEST: Final = 64  # characters of a client's id or a queue's name


# --- the client's side ---------------------------------------------------------------------------


def hello(challenge: bytes) -> bytes:
    """The first frame."""
    return frames.pack([MAGIC, PROTOCOL, challenge])


def answer(data: bytes, secret: bytes, own: bytes, caller: Caller) -> bytes:
    """The third frame, when the second proves that the server has the same key.

    Raises ForeignPeer, AuthFailed, VersionUnsupported.
    """
    second = _said(data)
    if len(second) != 4 or second[0] != MAGIC:
        raise ForeignPeer
    _, version, theirs, proof = second
    _check_version(version)
    if not isinstance(theirs, bytes) or not key.proves(secret, key.SERVER, theirs, own, proof):
        raise AuthFailed(
            "the local broker has another key: it belongs to another user, or ?key_file= names the wrong file"
        )
    mine = key.proof(secret, key.CLIENT, own, theirs)
    return frames.pack([mine, caller.client, caller.queue])


def welcomed(data: bytes) -> Mapping[str, Any]:
    """What the fourth frame says of the server. Raises what it refuses with."""
    fourth = _said(data)
    if len(fourth) != 2 or fourth[0] != _WELCOME or not isinstance(fourth[1], dict):
        raise ForeignPeer
    return fourth[1]


# --- the server's side ---------------------------------------------------------------------------


def challenge(data: bytes, secret: bytes, own: bytes) -> tuple[bytes, bytes]:
    """The second frame, and the client's challenge. Raises ForeignPeer, VersionUnsupported."""
    first = _list(data)
    if len(first) != 3 or first[0] != MAGIC or not isinstance(first[2], bytes):
        raise ForeignPeer
    _check_version(first[1])
    theirs = first[2]
    proof = key.proof(secret, key.SERVER, own, theirs)
    return frames.pack([MAGIC, PROTOCOL, own, proof]), theirs


def caller(data: bytes, secret: bytes, own: bytes, theirs: bytes) -> Caller:
    """Who calls, when the third frame proves the key. Raises ForeignPeer, AuthFailed."""
    third = _list(data)
    if len(third) != 3 or not all(isinstance(part, str) for part in third[1:]):
        raise ForeignPeer
    if not key.proves(secret, key.CLIENT, theirs, own, third[0]):
        raise AuthFailed("the key is another one")
    if not all(0 < len(part) <= _LONGEST for part in third[1:]):
        raise ForeignPeer("the client's id or the queue's name is too long")
    return Caller(third[1], third[2])


def welcome(info: Mapping[str, Any]) -> bytes:
    """The fourth frame."""
    return frames.pack([_WELCOME, dict(info)])


def refusal(error: MillgateError) -> bytes:
    """What takes the place of a frame when the server will not go on."""
    return frames.pack([_REFUSED, type(error).__name__, str(error)])


# --- both ----------------------------------------------------------------------------------------


def _said(data: bytes) -> list[Any]:
    """What a server says; a refusal is raised."""
    value = _list(data)
    if len(value) == 3 and value[0] == _REFUSED:
        raise answers.error(str(value[1]), str(value[2]))
    return value


def _list(data: bytes) -> list[Any]:
    try:
        value = frames.unpack(data)
    except NotDecodable as problem:
        raise ForeignPeer from problem
    if not isinstance(value, list):
        raise ForeignPeer
    return value


def _check_version(version: object) -> None:
    if version != PROTOCOL:
        raise VersionUnsupported(
            f"the other side speaks version {version} of the local protocol, this one {PROTOCOL};"
            " run the same Millgate on both"
        )
