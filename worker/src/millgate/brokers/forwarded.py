"""The copy of a dead letter that is published to the topic that its own topic names, alike on every broker. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from millgate.message import Message
from millgate.outcome import Failure

_TEXT: Final = 500  # characters of an error that travel in a header
_ID: Final = 100  # characters of the dead message's id that the copy's begins with


def forwarded(
    dead: Message, reason: str, attempt: int, failure: Failure | None, target: str, serial: int
) -> Message:
    """`dead` as a new message for the topic `target`; its headers tell what became of the first one.

    `serial` is a number that no other dead letter of the queue has.
    """
    headers = {
        "millgate-dead-id": dead.id,
        "millgate-dead-topic": dead.topic,
        "millgate-dead-reason": reason,
        "millgate-dead-attempts": str(attempt),
    }
    if failure is not None:
        said = f"{failure.error}: {failure.message}"[:_TEXT]
        # an error may say anything; a header is text that everybody can encode
        headers["millgate-dead-error"] = said.encode("utf-8", "backslashreplace").decode()
    return replace(
        dead,
        id=f"{dead.id[:_ID]}.dead{serial}",
        topic=target,
        unique=None,
        group=None,
        headers={**dead.headers, **headers},
    )
