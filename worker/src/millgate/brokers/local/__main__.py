"""brokerd as `setup` starts it: on its own feet, and telling its starter how the start went."""

from __future__ import annotations

import argparse
import os
import sys


def main() -> int:
    """Run brokerd; 0 when it was told to stop."""
    if "--detach" in sys.argv and os.fork():
        # Before anything heavy is loaded; the starter waits for this process and has no orphan to reap.
        os._exit(0)
    from millgate.brokers.local import arguments
    from millgate.brokers.local.brokerd import serve
    from millgate.brokers.served.detached import run
    from millgate.settings import environment

    parser = argparse.ArgumentParser(prog="brokerd")
    arguments.add(parser)
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--ready", type=int, metavar="FD", required=True)
    parser.add_argument("--starter", type=int, metavar="PID", required=True)
    given = parser.parse_args()
    return run(
        lambda ready: serve(arguments.read(given, environment(), given.starter), ready), given.ready
    )


if __name__ == "__main__":
    sys.exit(main())
