"""How long one call holds a Redis server, which does nothing else meanwhile: `python -m benchmarks.held`.

Each verb is measured with as many rows as one call may have, on a queue that has everything beside: returned and dead
messages, a cancelled run, progress, a group that waits. Counted is how long a script ran, by the server's own log: it
serves others while a request is read or an answer written. Of a verb's calls the longest counts, of the rounds the
lowest: other work on the machine only makes it longer.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from dataclasses import dataclass
from time import sleep
from typing import Final

from benchmarks.cost import threads_of
from benchmarks.holds import HOLDS, Hold, lived_in
from benchmarks.servers import server
from millgate.brokers import open_broker

BOUND: Final = 5.0  # ms that one call may hold the server
_KEPT: Final = 1000  # entries of the slow log
_SLOW: Final = 50  # microseconds: scripts are logged, but not each of their commands


@dataclass(frozen=True)
class Held:
    """What the server says of a verb's scripts: how many calls there were, and the ms of the longest."""

    calls: int
    longest: float


def measure(url: str, hold: Hold, rounds: int) -> Held:
    """The round in which the longest call was shortest."""
    return min((_round(url, hold) for _ in range(rounds)), key=lambda held: held.longest)


def _round(url: str, hold: Hold) -> Held:
    from support.redis import Admin

    admin = Admin(int(url.rpartition(":")[2].partition("/")[0]))
    admin("FLUSHALL")
    with closing(open_broker(url, queue="held")) as broker:
        broker.setup()
        lived_in(broker)
        act = hold.prepare(broker)
        sleep(hold.wait)
        for name, value in (("slowlog-max-len", _KEPT), ("slowlog-log-slower-than", _SLOW)):
            admin("CONFIG", "SET", name, value)
        admin("SLOWLOG", "RESET")
        process = admin.info("process_id")
        before = _ran(process)
        act()
        whole = _ran(process) - before
        entries = admin("SLOWLOG", "GET", _KEPT)
    taken = [entry[2] for entry in entries if entry[3][0] == b"EVALSHA"]
    # the log knows the time that passed, the kernel what the thread ran: with reading, writing, and all calls
    return Held(len(taken), min(max(taken) / 1000, whole * max(taken) / sum(taken)))


def _ran(process: str) -> float:
    """Milliseconds of processor that the server's own thread has had."""
    return {thread: seconds for thread, seconds, _ in threads_of(process)}[process] * 1000


def main() -> int:
    """Print a line for each verb; 1 when one of those that are bounded held the server for too long."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.held", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="verbs whose name has this text")
    options = parser.parse_args()
    over = []
    with server("redis") as running:
        url = running.url("held")
        print(f"{'verb':<52} {'rows':>5} {'calls':>5} {'ms held':>8}")
        for hold in HOLDS:
            if options.only in hold.name:
                held = measure(url, hold, options.rounds)
                print(
                    f"{hold.name:<52} {hold.rows:>5} {held.calls:>5} {held.longest:>8.2f}",
                    flush=True,
                )
                if held.longest > BOUND:
                    over.append(hold.name)
    if over:
        print(f"above {BOUND:g} ms: {', '.join(over)}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
