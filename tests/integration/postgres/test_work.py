"""What a call reads and compares grows with what it is asked for: not with its square, not with what else is stored.

The server tells of each statement inside its functions what each step of its plan had in hand (auto_explain). Rows
and blocks are counted, which do not depend on how busy the machine is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from millgate.brokers.base import Ask, State
from millgate.brokers.postgres import PostgresBroker
from millgate.message import Claim, Group, Message
from millgate.outcome import Reason
from millgate.queues import Ordering, Subscription
from millgate.settlement import Ack, Bury, Drop, Later, Settlement
from support.builders import a_message, a_topic, some_messages
from support.postgres import fresh_queue, open_queue
from support.servers import Postgres
from support.working import A_FAILURE, Hand

COUNT = 200  # messages of a call
OTHERS = 4_000  # messages of each topic that are there beside them, in keys of their own
TOPICS = ("plain", "keyed", "ordered", "later")
#: How many rows a step may have in hand, and how many blocks a call may read, for each message that it is about.
ROWS, BLOCKS = 20, 120


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    explain = {"log_min_duration": "0", "log_nested_statements": "on", "log_analyze": "on"}
    explain |= {"log_timing": "off", "log_buffers": "on", "log_format": "json"}
    made = Postgres(
        session_preload_libraries="auto_explain",
        autovacuum="off",
        **{f"auto_explain.{name}": value for name, value in explain.items()},
    )
    yield made
    made.close()


class Plans:
    """The plans that the server has told of since the last look."""

    def __init__(self, server: Postgres) -> None:
        self._log = server.log
        self._read = self._log.stat().st_size

    def new(self) -> Iterator[dict[str, Any]]:
        with self._log.open() as log:
            log.seek(self._read)
            text = log.read()
            self._read = log.tell()
        for part in text.split("plan:\n")[1:]:
            lines = [line for line in part.splitlines() if line.startswith("\t")]
            yield json.loads("\n".join(lines[: lines.index("\t}") + 1]))


def steps(plan: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Each step of a plan, and how many rows it had in hand, those that it left out included."""
    left = (value for name, value in plan.items() if name.startswith("Rows Removed"))
    rows = (plan.get("Actual Rows", 0) + sum(left)) * plan.get("Actual Loops", 1)
    yield plan["Node Type"], rows
    for below in plan.get("Plans", ()):
        yield from steps(below)


def excess(plans: Iterator[dict[str, Any]]) -> list[str]:
    """The statements that had too much in hand."""
    said = []
    for told in plans:
        plan = told["Plan"]
        name, rows = max(steps(plan), key=lambda step: step[1])
        blocks = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        if rows > ROWS * COUNT or blocks > BLOCKS * COUNT:
            text = " ".join(told["Query Text"].split())
            said.append(f"{rows:.0f} rows in a {name}, {blocks} blocks: {text[:300]}")
    return said


@pytest.fixture
def plans(server: Postgres) -> Plans:
    """What the server tells from now on."""
    return Plans(server)


@pytest.fixture(scope="module")
def client(server: Postgres) -> Iterator[PostgresBroker]:
    """A client of a queue in which much waits, more than all tests here take away."""
    made = open_queue(fresh_queue(), server.url())
    made.setup()
    made.configure(
        [
            a_topic("plain"),
            a_topic("keyed", key_limit=1),
            a_topic("ordered", ordering=Ordering.KEY),
            a_topic("later"),
        ]
    )
    for start in range(0, OTHERS, 1000):
        for topic in TOPICS:
            delay = 3600.0 if topic == "later" else None
            made.publish(
                [a_message(topic=topic, key=f"other-{start + n}", delay=delay) for n in range(1000)]
            )
    yield made
    made.close()


def keyed(topic: str, **fields: Any) -> list[Message]:
    """A call's messages: keys that come before all others in the index, each twice."""
    salt = a_message().id
    return [
        a_message(topic=topic, key=f"a-{salt}-{n % (COUNT // 2)}", **fields) for n in range(COUNT)
    ]


def claims(hand: Hand, topic: str) -> list[Claim]:
    held = hand.claim(COUNT, topic)
    assert len(held) == COUNT
    return held


def publish(**fields: Any) -> Callable[[PostgresBroker], None]:
    return lambda client: publish_all(client, [a_message(**fields) for _ in range(COUNT)])


def publish_all(client: PostgresBroker, messages: list[Message]) -> None:
    client.publish(messages)


def publish_keyed(topic: str) -> Callable[[PostgresBroker], None]:
    return lambda client: publish_all(client, keyed(topic))


def publish_unique(client: PostgresBroker) -> None:
    client.publish([a_message(topic="plain", unique=f"u{n}") for n in range(COUNT)])


def publish_twice(client: PostgresBroker) -> None:
    again = some_messages(COUNT, topic="plain")
    client.publish(again)
    assert all(receipt.duplicate for receipt in client.publish(again))


def publish_in_priorities(client: PostgresBroker) -> None:
    client.publish([a_message(topic="plain", priority=n % 10) for n in range(COUNT)])


def publish_a_group(client: PostgresBroker) -> None:
    members = some_messages(COUNT, topic="plain")
    names = tuple(member.id for member in members)
    client.publish(members, Group(members[0].id, names, a_message(topic="plain")))


def send(client: PostgresBroker) -> None:
    with psycopg.connect(client.target.conninfo) as connection:
        client.publish_in(connection, keyed("keyed"))


def run(topic: str, end: Callable[[Claim], Settlement]) -> Callable[[PostgresBroker], None]:
    def claim_and_settle(client: PostgresBroker) -> None:
        hand = Hand(client)
        held = claims(hand, topic)
        client.claim(
            hand.worker, Ask(Subscription((topic,)), COUNT), [end(claim) for claim in held]
        )

    return claim_and_settle


def put_back(client: PostgresBroker) -> None:
    hand = Hand(client)
    claims(hand, "keyed")
    client.unregister(hand.worker)


def cancel(topic: str, state: State) -> Callable[[PostgresBroker], None]:
    return lambda client: cancel_all(client, topic, state)


def cancel_all(client: PostgresBroker, topic: str, state: State) -> None:
    names = [peeked.message.id for peeked in client.peek(topic, state, COUNT) if peeked.message]
    assert len(names) == COUNT
    client.cancel(names)


def replay(client: PostgresBroker) -> None:
    hand = Hand(client)
    held = claims(hand, "keyed")
    hand.bury(*held)
    assert len(client.replay([claim.id for claim in held])) == COUNT


def promote(client: PostgresBroker) -> None:
    messages = [
        *keyed("keyed", delay=0.01)[: COUNT // 2],
        *some_messages(COUNT // 2, topic="plain", delay=0.01),
    ]
    client.publish(messages)
    time.sleep(0.02)
    names = [message.id for message in messages]
    assert {known.state for known in client.states(names)} == {State.WAITING}


VERBS: dict[str, Callable[[PostgresBroker], None]] = {
    "publish": publish(topic="plain"),
    "publish for later": publish(topic="plain", delay=3600.0),
    "publish in keys": publish_keyed("keyed"),
    "publish in order": publish_keyed("ordered"),
    "publish unique": publish_unique,
    "publish twice": publish_twice,
    "publish in priorities": publish_in_priorities,
    "publish a group": publish_a_group,
    "send": send,
    "run": run("plain", lambda claim: Ack(claim.ref)),
    "run in keys": run("keyed", lambda claim: Ack(claim.ref, b"1")),
    "run in order": run("ordered", lambda claim: Ack(claim.ref)),
    "give back at once": run("keyed", lambda claim: Later(claim.ref, 0.0)),
    "give back for later": run("keyed", lambda claim: Later(claim.ref, 3600.0)),
    "keep the order": run("ordered", lambda claim: Later(claim.ref, 3600.0)),
    "bury": run("keyed", lambda claim: Bury(claim.ref, Reason.FAILED, A_FAILURE)),
    "drop": run("keyed", lambda claim: Drop(claim.ref)),
    "put back": put_back,
    "cancel what waits": cancel("keyed", State.WAITING),
    "cancel what is delayed": cancel("later", State.DELAYED),
    "replay": replay,
    "promote": promote,
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_has_no_more_in_hand_than_it_was_asked_for(
    verb: str, client: PostgresBroker, plans: Plans
) -> None:
    client.publish(keyed("keyed"))  # the topic is in use, and its plans are made
    with psycopg.connect(client.target.conninfo, autocommit=True) as connection:
        connection.execute(f'SET search_path = "{client.target.schema}"')
        # what looks at everything now and then does not now, and nothing is dead of what the other tests left
        connection.execute("UPDATE upkeep SET swept = now() - interval '5 s'")
        connection.execute(
            "VACUUM msg, ready, parked, delayed, lease, keystate, final, uniq, delta"
        )
    list(plans.new())
    VERBS[verb](client)
    assert excess(plans.new()) == []
