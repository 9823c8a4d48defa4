"""brokerd as a client starts it that finds none: on its own feet, and telling its starter how the start went."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable


def main() -> int:
    """Run brokerd; 0 when nobody needs it any more."""
    if "--detach" in sys.argv and os.fork():
        # Before anything heavy is loaded; the starter waits for this process and has no orphan to reap.
        os._exit(0)
    from millgate.brokers.rabbitmq.brokerd import serve
    from millgate.brokers.rabbitmq.launch import URL
    from millgate.brokers.rabbitmq.role import Brokerd, Standing
    from millgate.brokers.rabbitmq.url import parse
    from millgate.brokers.served.detached import run
    from millgate.clock import SystemClock
    from millgate.settings import environment

    parser = argparse.ArgumentParser(prog="brokerd")
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--ready", type=int, metavar="FD", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--idle", type=float, required=True)
    given = parser.parse_args()

    def started(ready: Callable[[], None]) -> None:
        target = parse(environment()[URL], environment())
        how = Brokerd(target, given.queue, idle=given.idle, patient=False)

        def tell(standing: Standing) -> None:
            if standing is not Standing.AWAY:
                ready()

        serve(how, tell, SystemClock())

    return run(started, given.ready)


if __name__ == "__main__":
    sys.exit(main())
