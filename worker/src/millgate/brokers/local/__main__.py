"""brokerd as `setup` starts it: on its own feet, and telling its starter how the start went."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys


def main() -> int:
    """Run brokerd; 0 when it was told to stop."""
    if "--detach" in sys.argv and os.fork():
        os._exit(
            0
        )  # before anything heavy is loaded; the starter waits for this process and has no orphan to reap
    from millgate.brokers.local import arguments
    from millgate.brokers.local.brokerd import serve
    from millgate.errors import EXIT_BROKER, MillgateError
    from millgate.settings import environment

    parser = argparse.ArgumentParser(prog="brokerd")
    arguments.add(parser)
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--ready", type=int, metavar="FD", required=True)
    parser.add_argument("--starter", type=int, metavar="PID", required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    def say(**what: object) -> None:
        with os.fdopen(given.ready, "w") as pipe:
            json.dump(what, pipe)

    try:
        how = arguments.read(given, environment(), given.starter)
        os.chdir("/")  # it would keep a folder from being unmounted otherwise
        serve(how, lambda: say(ready=True))
    except MillgateError as error:
        logging.getLogger("millgate.brokers.local").error("%s", error)  # noqa: TRY400 -- an error of ours explains itself
        say(error=type(error).__name__, text=str(error))
        return EXIT_BROKER
    return 0


if __name__ == "__main__":
    sys.exit(main())
