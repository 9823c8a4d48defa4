"""The engine is a function of its records: read back they make the same state, byte for byte."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest

from millgate.brokers.base import Ask
from millgate.brokers.served import frames, values
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.engine import MEMORY, Call, Engine
from millgate.errors import NotDecodable
from millgate.fleet import Beat
from millgate.message import ClaimRef
from millgate.queues import TopicPolicy, policy_to_dict
from millgate.settlement import Ack, Later
from support.builders import a_message, a_worker, an_info

ME = Caller("client-of-this-test", "q")


def call(number: int, verb: str, *args: object, settled: int = 0) -> bytes:
    return frames.pack([number, settled, verb, args])


def history(seed: int) -> list[bytes]:
    """A journal of a queue's busy life, made by living it."""
    dice, engine, now = random.Random(seed), Engine(), 1_000_000.0
    records: list[bytes] = []
    workers = [a_worker() for _ in range(3)]
    held: list[ClaimRef] = []
    number = 0

    def do(verb: str, *args: object) -> list[object]:
        nonlocal number
        number += 1
        payload = call(number, verb, *args, settled=number)
        records.append(engine.record(now, ME, payload))
        answer: list[object] = frames.unpack(engine.apply(now, ME, Call.read(payload)))
        return answer

    topics = [TopicPolicy("a", limit=5, lease=5.0), TopicPolicy("b", key_limit=1, lease=3.0)]
    do("configure", [policy_to_dict(topic) for topic in topics], None, False)
    for worker in workers:
        do("register", values.from_worker(worker), values.from_info(an_info()))
    for turn in range(150):
        now += dice.random() * 2
        if dice.random() < 0.5:
            message = a_message(
                id=f"m{turn}", topic=dice.choice("abc"), key=dice.choice([None, "k", "l"]),
                delay=dice.choice([None, 1.0]), expires_in=dice.choice([None, 4.0]),
            )  # fmt: skip
            do("publish", [values.from_message(message)], None)
        worker = dice.choice(workers)
        settled = [
            values.from_settlement(Ack(ref, b"1") if dice.random() < 0.5 else Later(ref, 1.0))
            for ref in held
            if dice.random() < 0.7
        ]
        answer = do("claim", values.from_worker(worker), values.from_ask(Ask(n=2)), settled)
        held = [claim.ref for claim in values.to_claimed(answer[1]).claims]  # type: ignore[arg-type]
        engine.look(now, ME, Call.read(call(0, "stats")))  # looking must leave no trace
        if dice.random() < 0.05:
            records.append(engine.resumption(now))
            engine.replay(records[-1])
        if dice.random() < 0.05:
            set_to = now + dice.choice([-1, 1]) * 1000 * dice.random()
            records.append(engine.correction(now, set_to))
            engine.replay(records[-1])
            now = set_to
    return records


REPLAY = """
import json, sys
from millgate.brokers.served.engine import Engine
engine = Engine()
for record in json.load(sys.stdin):
    engine.replay(bytes.fromhex(record))
print(engine.dump().hex())
"""


@pytest.mark.parametrize("seed", range(3))
def test_whatever_process_reads_the_records_comes_to_the_same_state(seed: int) -> None:
    records = history(seed)
    dumps = set()
    for hashes in ("0", "1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", REPLAY],
            input=json.dumps([record.hex() for record in records]),
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        dumps.add(done.stdout)
    assert len(dumps) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_in_the_middle_makes_no_difference(seed: int) -> None:
    records = history(seed)
    straight, broken = Engine(), Engine()
    for record in records:
        straight.replay(record)
    for record in records[:100]:
        broken.replay(record)
    resumed = Engine()
    resumed.load(broken.dump())
    for record in records[100:]:
        resumed.replay(record)
    now = straight.now + 1
    for verb, args in (("stats", ()), ("peek", ("a", "waiting", 100)), ("configuration", ())):
        question = Call.read(call(1, verb, *args))
        assert resumed.look(now, ME, question) == straight.look(now, ME, question)
    claim = Call.read(call(10_000, "claim", ["w", "x"], values.from_ask(Ask(n=9)), []))
    assert resumed.apply(now, ME, claim) == straight.apply(now, ME, claim)


def publish(engine: Engine, now: float, caller: Caller, number: int) -> list[object]:
    message = values.from_message(a_message())
    answer: list[object] = frames.unpack(
        engine.apply(now, caller, Call.read(call(number, "publish", [message], None)))
    )
    return answer


def test_a_number_is_carried_out_once_until_its_answer_has_arrived() -> None:
    engine = Engine()
    first = publish(engine, 1.0, ME, 1)
    assert publish(engine, 2.0, ME, 1) == first
    engine.apply(3.0, ME, Call.read(call(2, "pause", "t", True, settled=2)))
    assert engine.remembered(ME, 1) is None
    assert engine.remembered(ME, 2) is not None


def test_silent_callers_are_forgotten_and_their_number_is_bounded() -> None:
    engine = Engine()
    publish(engine, 0.0, Caller("old", "q"), 1)
    publish(engine, 10.0, Caller("new", "q"), 1)
    publish(engine, MEMORY + 5.0, ME, 1)
    assert engine.remembered(Caller("old", "q"), 1) is None
    assert engine.remembered(Caller("new", "q"), 1) is not None


def test_a_caller_that_never_says_what_arrived_costs_a_bounded_memory() -> None:
    engine = Engine()
    for number in range(1000):
        publish(engine, 1.0, ME, number)
    assert sum(engine.remembered(ME, number) is not None for number in range(1000)) <= 256
    assert engine.remembered(ME, 999) is not None


def test_an_error_is_answered_and_remembered_like_anything_else() -> None:
    engine = Engine()
    wrong = Call.read(call(1, "publish", [[1, 2, 3]], None))
    answer = frames.unpack(engine.apply(1.0, ME, wrong))
    assert answer[:2] == [1, "BrokerError"]
    refused = Call.read(
        call(2, "configure", [policy_to_dict(TopicPolicy("t", weight=0))], None, False)
    )
    answer = frames.unpack(engine.apply(1.0, ME, refused))
    assert answer[1] == "InvalidInput"
    assert "weight" in answer[2]


def test_who_only_reads_along_keeps_no_news_for_which_nobody_waits() -> None:
    standby = Engine()
    for record in history(1):
        standby.replay(record)
    assert not any(core.take_news() for core in standby.queues.values())


def test_looking_at_a_queue_that_nobody_has_written_to_makes_none() -> None:
    engine = Engine()
    engine.look(1.0, ME, Call.read(call(1, "stats")))
    assert engine.queues == {}


@pytest.mark.parametrize(
    "payload", [b"", b"\x90", b"\x94\x01\x02\x03\x04", b"\x94\xa1x\x00\xa1v\x90"]
)
def test_what_is_no_call_is_told_apart(payload: bytes) -> None:
    with pytest.raises(NotDecodable):
        Call.read(payload)


class Kept:
    """An engine whose calls go through a journal."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.journal: list[bytes] = []

    def ask(self, now: float, number: int, verb: str, *args: object) -> Any:
        caller, payload = Caller("a", "q"), frames.pack([number, number, verb, args])
        self.journal.append(self.engine.record(now, caller, payload))
        return frames.unpack(self.engine.apply(now, caller, Call.read(payload)))[1]


def test_time_in_which_nobody_could_be_heard_ends_no_lease() -> None:
    kept = Kept()
    engine, journal, ask = kept.engine, kept.journal, kept.ask
    worker = values.from_worker(a_worker())
    ask(100.0, 1, "configure", [policy_to_dict(TopicPolicy("default", lease=30.0))], None, False)
    ask(100.0, 2, "register", worker, values.from_info(an_info()))
    ask(100.0, 3, "publish", values.from_messages([a_message(id="m")]), None)
    claimed = values.to_claimed(ask(100.0, 4, "claim", worker, values.from_ask(Ask()), []))
    journal.append(engine.resumption(1000.0))
    engine.replay(journal[-1])
    ref = values.from_ref(claimed.claims[0].ref)
    extended = values.to_extended(ask(1029.0, 5, "extend", worker, [ref], values.from_beat(Beat())))
    assert extended.lost == ()
    again = Engine()
    for record in journal:
        again.replay(record)
    assert again.dump() == engine.dump()
    assert values.to_extended(
        ask(1060.0, 6, "extend", worker, [ref], values.from_beat(Beat()))
    ).lost == ("m",)


@pytest.mark.parametrize("by", [86_400.0, -86_400.0])
def test_a_clock_that_was_set_is_followed_by_everything_that_nobody_named(by: float) -> None:
    kept = Kept()
    engine, journal, ask = kept.engine, kept.journal, kept.ask
    worker, now = values.from_worker(a_worker()), 1_000_000.0
    ask(now, 1, "configure", [policy_to_dict(TopicPolicy("default", lease=30.0))], None, False)
    ask(now, 2, "register", worker, values.from_info(an_info()))
    ask(now, 3, "publish", values.from_messages([a_message(id="m")]), None)
    claimed = values.to_claimed(ask(now, 4, "claim", worker, values.from_ask(Ask()), []))
    named = a_message(id="named", at=now + 100_000.0)
    ask(now, 5, "publish", values.from_messages([named, a_message(id="in", delay=30.0)]), None)
    silent, payload = Caller("silent", "q"), call(1, "pause", "t", False)
    journal.append(engine.record(now, silent, payload))
    engine.apply(now, silent, Call.read(payload))
    journal.append(engine.correction(now + 10, now + 10 + by))
    engine.replay(journal[-1])
    now += by
    ref = values.from_ref(claimed.claims[0].ref)
    renewed = ask(now + 29.0, 6, "extend", worker, [ref], values.from_beat(Beat()))
    assert values.to_extended(renewed).lost == ()
    assert engine.remembered(silent, 1) is not None
    topic = engine.queues["q"].stats(now + 29.0).topics["default"]
    assert (topic.delayed, topic.leased) == (2, 1)
    assert engine.queues["q"].stats(now + 31.0).topics["default"].delayed == 1
    assert engine.queues["q"].states(1_099_999.0, ["named"])[0].state == "delayed"
    assert engine.queues["q"].states(1_100_001.0, ["named"])[0].state == "waiting"
    again = Engine()
    for record in journal:
        again.replay(record)
    again.queues["q"].tick(1_100_001.0)
    assert again.dump() == engine.dump()


def test_what_time_had_ended_before_stays_ended_wherever_the_records_are_read() -> None:
    kept = Kept()
    engine, journal, ask = kept.engine, kept.journal, kept.ask
    first, second = a_worker("first"), a_worker("second")
    ask(100.0, 1, "configure", [policy_to_dict(TopicPolicy("default", lease=30.0))], None, False)
    ask(100.0, 2, "register", values.from_worker(first), values.from_info(an_info()))
    ask(100.0, 3, "register", values.from_worker(second), values.from_info(an_info()))
    ask(100.0, 4, "publish", values.from_messages([a_message(id="m")]), None)
    ask(100.0, 5, "claim", values.from_worker(first), values.from_ask(Ask()), [])
    engine.queues["q"].tick(131.0)  # the lease has ended, which leaves no record
    journal.append(engine.resumption(140.0))
    engine.replay(journal[-1])
    claimed = ask(141.0, 6, "claim", values.from_worker(second), values.from_ask(Ask()), [])
    assert [claim.id for claim in values.to_claimed(claimed).claims] == ["m"]
    again = Engine()
    for record in journal:
        again.replay(record)
    assert again.dump() == engine.dump()
