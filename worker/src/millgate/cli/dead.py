"""`millgate dead`: lists, shows, replays and purges dead letters."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from millgate.brokers.base import Broker, DeadLetter
from millgate.cli.connection import add_broker, connected, number
from millgate.cli.harmless import lines
from millgate.cli.output import Table, add_format, brief, cut, emit, payload
from millgate.cli.purge import add_yes, agreed
from millgate.cli.topics import remark_unknown, topic_name
from millgate.clock import written
from millgate.errors import EXIT_FAILED, EXIT_OK, InvalidSettings

#: Dead letters fetched in one call.
_PAGE = 100
#: Most characters of a failure in a row of the list; `dead show` has all.
_WIDTH = 60


def add(subparsers: Any) -> None:
    """Enter the command and its four verbs."""
    parser = subparsers.add_parser("dead", help="list, show, replay or purge dead letters")
    verbs = parser.add_subparsers(dest="verb", metavar="{list,show,replay,purge}", required=True)
    listing = _verb(verbs, "list", _list, "Newest first.")
    listing.add_argument("--topic", type=topic_name, help="only of this topic")
    listing.add_argument("--limit", type=number, default=_PAGE, help="default: %(default)s")
    listing.add_argument("--after", metavar="ID", help="go on after this one")
    _verb(verbs, "show", _show, "One, whole: call, counts, failure, traceback.").add_argument("id")
    replay = _verb(
        verbs, "replay", _replay, "Queue them again: id, chain, group, options kept, counts at 0."
    )
    _selection(replay)
    purge = _verb(verbs, "purge", _purge, "Forget them for good.")
    _selection(purge)
    add_yes(purge)


def _verb(verbs: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
    add_broker(parser)
    add_format(parser)
    parser.set_defaults(run=run)
    return parser


def _selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="*")
    parser.add_argument("--topic", type=topic_name, help="all of this topic")
    parser.add_argument("--all", action="store_true", help="all of the queue")


def _list(args: argparse.Namespace) -> int:
    with connected(args) as broker:
        remark_unknown(args.console, broker, _named(args))
        letters = list(_letters(broker, args.topic, args.limit, args.after))
    emit(args.console, args.output, [_plain(letter) for letter in letters], _table(letters))
    if len(letters) == args.limit:
        args.console.say(f"millgate: the newest {args.limit}; go on with --after {letters[-1].id}")
    return EXIT_OK


def _show(args: argparse.Namespace) -> int:
    with connected(args) as broker:
        letter = broker.dead_letter(args.id)
    if letter is None:
        args.console.say(f"millgate: error: no dead letter {args.id}")
        return EXIT_FAILED
    emit(args.console, args.output, _plain(letter), Table(("FIELD", "VALUE"), _fields(letter)))
    if args.output == "table" and letter.failure is not None and letter.failure.traceback:
        args.console.print(f"\n{lines(letter.failure.traceback)}")
    return EXIT_OK


def _replay(args: argparse.Namespace) -> int:
    _check_selection(args)
    with connected(args) as broker:
        remark_unknown(args.console, broker, _named(args))
        ids = args.id or [letter.id for letter in _letters(broker, args.topic, None, None)]
        replayed = [
            name
            for start in range(0, len(ids), _PAGE)
            for name in broker.replay(ids[start : start + _PAGE])
        ]
    missing = [name for name in args.id if name not in set(replayed)]
    rows = [(name, "queued again") for name in replayed]
    rows += [(name, "no dead letter") for name in missing]
    value = {"replayed": replayed, "missing": missing}
    emit(args.console, args.output, value, Table(("ID", "STATE"), rows))
    return EXIT_FAILED if missing else EXIT_OK


def _purge(args: argparse.Namespace) -> int:
    _check_selection(args)
    what = f"{len(args.id)} dead letters" if args.id else "all dead letters"
    where = f" of topic {args.topic}" if args.topic else ""
    with connected(args) as broker:
        remark_unknown(args.console, broker, _named(args))
        if not agreed(args, f"Forget {what}{where} for good?"):
            return EXIT_FAILED
        removed = broker.purge_dead(args.topic, args.id or None)
    emit(args.console, args.output, {"removed": removed}, Table(("REMOVED",), [(str(removed),)]))
    return EXIT_FAILED if args.id and removed < len(set(args.id)) else EXIT_OK


def _named(args: argparse.Namespace) -> list[str]:
    return [] if args.topic is None else [args.topic]


def _check_selection(args: argparse.Namespace) -> None:
    given = sum((bool(args.id), bool(args.topic), args.all))
    if given != 1:
        several = "these exclude each other: " if given else ""
        raise InvalidSettings(f"{several}name dead letters by id, or give --topic TOPIC, or --all")


def _letters(
    broker: Broker, topic: str | None, limit: int | None, after: str | None
) -> Iterator[DeadLetter]:
    seen = 0
    while limit is None or seen < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - seen)
        page = broker.dead(topic, size, after)
        yield from page
        if len(page) < size:
            return
        seen, after = seen + len(page), page[-1].id


def _table(letters: Sequence[DeadLetter]) -> Table:
    rows = [
        (
            letter.id,
            letter.topic,
            letter.message.task if letter.message else "?",
            letter.reason,
            str(letter.attempt),
            written(int(letter.died)),
            cut(_failure(letter), _WIDTH),
        )
        for letter in letters
    ]
    return Table(("ID", "TOPIC", "TASK", "REASON", "ATTEMPTS", "DIED", "FAILURE"), rows)


def _fields(letter: DeadLetter) -> list[tuple[str, str]]:
    message = letter.message
    return [
        ("id", letter.id),
        ("topic", letter.topic),
        ("task", message.task if message else "?"),
        ("call", brief(message.body, 200) if message else brief(letter.raw, 200)),
        ("reason", letter.reason),
        ("died", written(int(letter.died))),
        ("attempts", str(letter.attempt)),
        ("failures", str(letter.failures)),
        ("losses", str(letter.losses)),
        ("interruptions", str(letter.interruptions)),
        ("worker", letter.worker or "-"),
        ("failure", _failure(letter)),
        ("chain", " → ".join(step.task for step in (message.chain if message else ())) or "-"),
        ("group", (message.group if message else None) or "-"),
    ]


def _plain(letter: DeadLetter) -> dict[str, Any]:
    message = letter.message
    return {
        "id": letter.id,
        "topic": letter.topic,
        "task": message.task if message else None,
        "call": payload(message.body) if message else None,
        "reason": letter.reason,
        "died": written(int(letter.died)),
        "attempt": letter.attempt,
        "failures": letter.failures,
        "losses": letter.losses,
        "interruptions": letter.interruptions,
        "worker": letter.worker or None,
        "failure": letter.failure,
        "chain": [step.task for step in message.chain] if message else None,
        "group": message.group if message else None,
        "raw": None if message else payload(letter.raw),
    }


def _failure(letter: DeadLetter) -> str:
    if letter.failure is None:
        return "-"
    return f"{letter.failure.error}: {letter.failure.message}".strip(": ")
