"""`make bench`: medians of three, beside the peers when asked; the last line is one JSON object."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.peers import PEERS, Peer
from benchmarks.progress import say
from benchmarks.servers import server

_NUMBERS = ("drain_per_s", "enqueue_per_s", "bulk_enqueue_per_s", "cpu_us_per_task")
_NESTED = ("latency_ms", "rss_mb")


def ours(url: str, tasks: int, children: int) -> dict[str, Any]:
    """One measurement by the product's own command."""
    command = [sys.executable, "-m", "millgate.cli", "bench", "--broker", url, "-o", "json"]
    sizes = ["--tasks", str(tasks), "--children", str(children)]
    done = subprocess.run([*command, *sizes], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Of every number; what is no number is of the first round."""
    result = dict(rounds[0])
    for name in _NUMBERS:
        result[name] = _median([one[name] for one in rounds])
    for name in _NESTED:
        result[name] = {key: _median([one[name][key] for one in rounds]) for key in rounds[0][name]}
    return result


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    brokers = ("local", "postgres", "redis", "rabbitmq", "memory")
    parser.add_argument("--broker", choices=brokers, required=True)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", action="store_true", help="beside the peers of this broker")
    options = parser.parse_args()
    peers = [peer for peer in PEERS if peer.broker == options.broker] if options.peers else []
    ready = [peer for peer in peers if installed(peer)]
    own: list[dict[str, Any]] = []
    theirs: dict[str, list[float]] = {peer.name: [] for peer in ready}
    with server(options.broker) as running:
        for number in range(1, options.rounds + 1):
            own.append(ours(running.url("millgate"), options.tasks, options.children))
            say(f"round {number}: millgate drains {own[-1]['drain_per_s']:,.0f} tasks a second")
            for peer in ready:  # in turn, so that a slow minute of the machine meets all
                rate = peer.drain(running.url(peer.name), options.tasks, options.children)
                theirs[peer.name].append(rate)
                say(f"round {number}: {peer.name} drains {rate:,.0f} tasks a second")
    result = medians(own)
    if peers:
        rates = {name: statistics.median(values) for name, values in theirs.items()}
        result["peers_drain_per_s"] = {name: round(rate, 1) for name, rate in rates.items()}
        result["vs"] = {
            name: round(result["drain_per_s"] / rate, 2) for name, rate in rates.items()
        }
        result["not_installable"] = sorted({peer.name for peer in peers} - set(theirs))
    print(json.dumps(result))
    return 0


def installed(peer: Peer) -> bool:
    """Whether the peer is there, or could be installed into an environment of its own."""
    problem = peer.install()
    if problem is not None:
        say(f"{peer.name} cannot be installed, and is left out: {problem}")
    return problem is None


if __name__ == "__main__":
    sys.exit(main())
