"""Repeats a view: redrawn in place on a terminal, one after the other elsewhere, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable

from millgate.cli.console import Console
from millgate.errors import EXIT_OK, BrokerUnavailable

_HOME_AND_CLEAR = "\x1b[H\x1b[2J"


def watched(console: Console, every: float | None, show: Callable[[], None]) -> int:
    """Call `show` once, or every so many seconds; a broker that is away for a while does not end the watching."""
    if every is None:
        show()
        return EXIT_OK
    try:
        while True:
            if console.terminal:
                console.print(_HOME_AND_CLEAR, end="")
            try:
                show()
            except BrokerUnavailable as error:
                console.say(f"millgate: {error} (trying again)")
            console.clock.sleep(max(every, 0.1))
    except KeyboardInterrupt:
        return EXIT_OK
