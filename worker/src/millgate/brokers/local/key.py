"""The key of a local broker: a file of one user on one host, and the proof that both sides know it.

The key itself never travels. Each side sends a random challenge; each answers with an HMAC-SHA256 over both
challenges and its own role, so that an answer can be neither replayed nor reflected.
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from millgate.errors import AuthFailed, BrokerRefused, BrokerUnavailable
from millgate.shortage import of_files

CHALLENGE: Final = 32  # random bytes
SERVER: Final = b"millgate local broker"
CLIENT: Final = b"millgate local client"
_SHORTEST: Final = 16  # bytes of a key that somebody else wrote


def challenge() -> bytes:
    """What the other side must use in its proof."""
    return secrets.token_bytes(CHALLENGE)


def proof(key: bytes, role: bytes, own: bytes, others: bytes) -> bytes:
    """What only somebody with the key can say: `role` is who says it, `own` and `others` are the challenges."""
    return hmac.digest(key, role + b"\0" + own + others, "sha256")


def proves(key: bytes, role: bytes, own: bytes, others: bytes, answer: object) -> bool:
    """Whether `answer` is the proof that the other side, in `role`, would give; takes the same time either way."""
    return isinstance(answer, bytes) and hmac.compare_digest(proof(key, role, own, others), answer)


def read(path: Path, *, private: bool) -> bytes:
    """The key in a file.

    With `private` the file must be this user's and nobody else's; without (a mounted Secret), its modes are the
    business of whoever mounted it. Raises AuthFailed, saying what to do, and BrokerUnavailable.
    """
    try:
        status = path.stat()
        key = path.read_bytes().strip()
    except OSError as error:
        advice = of_files(error)
        if advice is not None:
            raise BrokerUnavailable(f"the key at {path} cannot be read: {advice}") from error
        raise AuthFailed(
            f"no key of a local broker at {path}: {error.strerror}; start the broker as this user first,"
            " or name the key with ?key_file="
        ) from error
    if private and (status.st_uid != os.geteuid() or status.st_mode & 0o077):
        raise AuthFailed(
            f"the key at {path} is open to others; remove it, stop the broker and start it anew"
        )
    if len(key) < _SHORTEST:
        raise AuthFailed(f"the key at {path} has fewer than {_SHORTEST} bytes; write a longer one")
    return key


def create(path: Path) -> None:
    """Write a new key unless there is one; of many at once, one wins and all use its key.

    Raises BrokerRefused, BrokerUnavailable.
    """
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_hex(32).encode())
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            # A link appears whole or not at all, and never over a key that somebody uses already.
            os.link(draft, path)
    except OSError as error:
        advice = of_files(error)
        if advice is not None:
            raise BrokerUnavailable(f"cannot write a key at {path}: {advice}") from error
        raise BrokerRefused(f"cannot write a key at {path}: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
