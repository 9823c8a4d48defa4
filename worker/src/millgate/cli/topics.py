"""Topics on the command line: a name that could never be one is refused, one that nobody knows is remarked upon."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from difflib import get_close_matches

from millgate.brokers.base import Broker
from millgate.cli.console import Console
from millgate.message import TOPIC_NAME


def topic_name(text: str) -> str:
    """An argparse type: a topic's name."""
    if not TOPIC_NAME.match(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} names no topic; use 1 to 128 letters, digits, '.', '_', ':' or '-', a letter or digit first"
        )
    return text


def remark_unknown(console: Console, broker: Broker, topics: Iterable[str]) -> None:
    """Say on standard error which of the topics are neither declared nor used so far: most likely misspelt."""
    known = broker.stats().topics
    for name in topics:
        if name not in known:
            console.say(f"millgate: {unknown('topic', name, known)}")


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """One sentence: no such thing here, and what is like it, or what there is."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"no {what} {name} is known in this queue; did you mean {close[0]}?"
    there = f"; there is {', '.join(names[:8])}{' …' if len(names) > 8 else ''}" if names else ""
    return f"no {what} {name} is known in this queue{there}"
