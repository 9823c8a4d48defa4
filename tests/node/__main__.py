"""The command line of the harness."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from node import images, instance, local, packages, programs, provider
from node.command import CommandFailed
from node.debian import BootstrapFailed
from node.instance import InstanceFailed
from node.packages import MissingPackages
from node.programs import BuildFailed

Verb = Callable[[argparse.Namespace], None]


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 when it did what it says."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.verb(arguments)
    except (BootstrapFailed, BuildFailed, CommandFailed, InstanceFailed, MissingPackages) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m node", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(verb: Verb, text: str, name: str = "main") -> argparse.ArgumentParser:
        made = verbs.add_parser(verb.__name__.strip("_"), help=text, description=text)
        made.set_defaults(verb=verb)
        made.add_argument("--name", default=name, help=f"which instance (default: {name})")
        return made

    build = add(
        _build, "build Kubernetes and what it stands on into the cache (once, about ten minutes)"
    )
    build.add_argument(
        "--cluster",
        choices=["auto", *provider.KINDS],
        default="node",
        help="where pods will run; for kind and current only kubectl and helm are built, if they are missing",
    )
    up = add(_up, "bring a cluster up and leave it running")
    up.add_argument("--nodes", type=int, default=1, help="how many nodes (default: 1)")
    add(_api, "bring an API server alone up and leave it running", name="api")
    down = add(_down, "end an instance; nothing of it is left")
    down.add_argument("--all", action="store_true", help="end every instance")
    run = add(_run, "run a command inside, where Services and pods have their addresses")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="CMD")
    add(_load, "put the images of a docker-archive on the node").add_argument("archive", type=Path)
    kill = add(_kill, "kill a component (or send it another signal)")
    kill.add_argument("component")
    kill.add_argument("--signal", default="KILL", help="such as STOP, to make it hang, and CONT")
    restart = add(_restart, "start a component, after killing it if it runs")
    restart.add_argument("component")
    add(_status, "show the components of an instance")
    add(_images, "build the project's images into the cache, or reuse them; print where they are")
    add(_packages, "list the Debian packages that the harness stands on")
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _build(arguments: argparse.Namespace) -> None:
    ours = provider.chosen(arguments.cluster) == "node"
    print(programs.build(_say) if ours else programs.build_clients(_say))


def _up(arguments: argparse.Namespace) -> None:
    _bring_up(arguments.name, arguments.nodes)


def _api(arguments: argparse.Namespace) -> None:
    _bring_up(arguments.name, 0)


def _bring_up(name: str, nodes: int) -> None:
    running = instance.find(name)
    if running is None:
        cluster = local.up(name, nodes=nodes, say=_say)
        running = cluster.instance
    else:
        _say(f"{name} is up already")
    print(f"export KUBECONFIG={running.layout.kubeconfig}")


def _down(arguments: argparse.Namespace) -> None:
    names = [found.name for found in instance.running()] if arguments.all else [arguments.name]
    for name in names:
        found = instance.find(name)
        if found is not None:
            found.end(wait=True)
            _say(f"{name} is down")
    instance.sweep(_say)


def _run(arguments: argparse.Namespace) -> None:
    argv = arguments.argv[1:] if arguments.argv[:1] == ["--"] else arguments.argv
    if not argv:
        raise InstanceFailed("which command? python -m node run -- kubectl get pods")
    inside = local.attach(arguments.name).instance.enter(*argv)
    os.execvp(inside[0], inside)  # the command takes our place, with our terminal


def _load(arguments: argparse.Namespace) -> None:
    local.attach(arguments.name).load(arguments.archive)


def _kill(arguments: argparse.Namespace) -> None:
    number = signal.Signals[f"SIG{arguments.signal.upper().removeprefix('SIG')}"]
    local.attach(arguments.name).kill(arguments.component, number)


def _restart(arguments: argparse.Namespace) -> None:
    local.attach(arguments.name).restart(arguments.component)


def _status(arguments: argparse.Namespace) -> None:
    cluster = local.attach(arguments.name)
    for name, state in cluster.status().items():
        runs = state["pid"] is not None
        print(f"{name:26} {'runs' if runs else 'ended with code ' + str(state['code'])}")
    print(f"{'kubeconfig':26} {cluster.kubeconfig}")
    print(f"{'logs':26} {cluster.instance.layout.logs}")


def _images(_: argparse.Namespace) -> None:
    for target in images.TARGETS:
        print(f"{images.reference(target)} {images.build(target, _say)}")


def _packages(_: argparse.Namespace) -> None:
    print("\n".join(packages.ALL))


if __name__ == "__main__":
    sys.exit(main())
