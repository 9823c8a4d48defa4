"""Every value of the contract travels as plain values and comes back equal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.brokers.base import (
    Ask,
    Claimed,
    DeadLetter,
    Extended,
    Fenced,
    Lock,
    Peeked,
    State,
    TaskState,
)
from millgate.brokers.served import frames, reports, values
from millgate.fleet import Beat, WorkerInfo, WorkerRef, WorkerRow, WorkerState
from millgate.limits import Rate
from millgate.message import Claim, ClaimRef, Group, Message, Options
from millgate.outcome import Failure, Reason
from millgate.queues import (
    Configuration,
    DeadPolicy,
    Ordering,
    QueuePolicy,
    Subscription,
    TopicPolicy,
    Undeclared,
)
from millgate.retry import Backoff, BackoffType, Jitter, RetryPolicy
from millgate.settlement import Ack, Bury, Charge, Drop, Later
from millgate.stats import Stats, TopicStats


def travelled(plain: Any) -> Any:
    """What the other side gets."""
    return frames.unpack(frames.pack(plain))


STEP = Message(id="step", topic="t", task="next", body=b"2", feed=True)
FULL = Message(
    id="m/1",
    topic="video",
    task="transcode",
    body=b"[1]",
    priority=9,
    key="k",
    delay=1.5,
    expires_in=60.0,
    expires_at=2e9,
    unique="u",
    unique_for=5.0,
    result_ttl=0.0,
    group="g",
    gather=("a", "b"),
    feed=True,
    options=Options(1.0, 2.0, 3, {"type": "Fixed"}),
    headers={"traceparent": "00-1"},
    chain=(STEP, STEP),
)
FAILURE = Failure("ValueError", "b\ud800d", "line 1\nline 2")
WORKER = WorkerRef("w", "inc")
INFO = WorkerInfo(4, "host", 7, "1.0", "*")
BEAT = Beat(2, 1, 5, None, 3.5, True, {"children": 2, "list": [1, None]})


def test_a_message_with_further_steps_comes_back_whole() -> None:
    back = values.to_message(travelled(values.from_message(FULL)))
    assert back == FULL


@given(
    st.builds(
        Message,
        id=st.text(),
        topic=st.text(),
        task=st.text(st.characters(exclude_categories=["Cs"])),
        body=st.binary(),
        priority=st.integers(0, 9),
        key=st.none() | st.text(),
        at=st.none() | st.floats(allow_nan=False),
        headers=st.dictionaries(st.text(), st.text(), max_size=3),
    )
)
def test_a_single_message_keeps_what_brokers_decide_by_and_its_record(message: Message) -> None:
    back = values.to_message(travelled(values.from_message(message)))
    assert [getattr(back, name) for name in values.HEAD] == [
        getattr(message, name) for name in values.HEAD
    ]
    assert back.record() == message.record()
    assert values.whole(back, back.record()) == message


def test_a_group_comes_back_with_its_callback_whole() -> None:
    group = Group("g", ("a", "b"), FULL, require_all=False)
    assert values.to_group(travelled(values.from_group(group))) == group
    assert values.to_group(values.from_group(None)) is None


@pytest.mark.parametrize(
    "settlement",
    [
        Ack(ClaimRef("i", "t", "x")),
        Ack(ClaimRef("i", "t", "x"), b"r", 5.0, (FULL,)),
        Later(ClaimRef("i", "t", "x"), 2.0, Charge.LOSS, FAILURE),
        Later(ClaimRef("i", "t", "x"), 0.0, Charge.NOTHING),
        Bury(ClaimRef("i", "t", "x"), Reason.MEMORY_EXCEEDED, FAILURE),
        Drop(ClaimRef("i", "t", "x")),
    ],
)
def test_every_settlement_comes_back(settlement: Any) -> None:
    assert values.to_settlement(travelled(values.from_settlement(settlement))) == settlement


def test_a_settlement_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="'z'"):
        values.to_settlement(["z", "i", "t", "x"])


def test_what_a_claim_asks_and_gets_comes_back() -> None:
    ask = Ask(Subscription(("a*", "b"), ("c",), ordered=True), 3)
    assert values.to_ask(travelled(values.from_ask(ask))) == ask
    claim = Claim("i", "t", "x", b"rec", 2, 1, 1, 3, 30.0, 1.5, 7, "k", 0.0, "g")
    claimed = Claimed((claim, Claim("j", "t", "y", b"")), ("old",), WorkerState.FENCED, 4, 1.25)
    assert values.to_claimed(travelled(values.from_claimed(claimed))) == claimed


def test_the_fleets_values_come_back() -> None:
    assert values.to_worker(travelled(values.from_worker(WORKER))) == WORKER
    assert WorkerInfo(*travelled(values.from_info(INFO))) == INFO
    assert Beat(*travelled(values.from_beat(BEAT))) == BEAT
    extended = Extended(("a",), ("b", "c"), WorkerState.UNKNOWN, 9)
    assert values.to_extended(travelled(values.from_extended(extended))) == extended
    for fenced in (Fenced(True, 3), Fenced(False, None)):
        assert Fenced(*travelled(values.from_fenced(fenced))) == fenced


def test_statistics_come_back_and_unknown_stays_unknown() -> None:
    row = WorkerRow("w", "inc", WorkerState.ACTIVE, 1.5, 2, INFO, BEAT, 7.5)
    stats = Stats(
        {"t": TopicStats(waiting=1, oldest=2.5, declared=True), "u": TopicStats()}, (row,), 3, 0.5
    )
    assert reports.to_stats(travelled(reports.from_stats(stats))) == stats


def test_the_configuration_comes_back() -> None:
    backoff = Backoff(BackoffType.FIXED, 1.0, 3.0, 60.0, Jitter.NONE)
    topic = TopicPolicy(
        "t", limit=3, rate=Rate(5, 2.0, 9), ordering=Ordering.KEY, dead=DeadPolicy.DROP,
        retry=RetryPolicy(2, 0, 9, backoff),
    )  # fmt: skip
    queue = QueuePolicy(limit=9, undeclared=Undeclared.REJECT, defaults=topic)
    configuration = Configuration(7, queue, {"t": topic})
    back = reports.to_configuration(travelled(reports.from_configuration(configuration)))
    assert back == configuration


def test_what_is_looked_up_comes_back() -> None:
    states = [
        TaskState("a"),
        TaskState("b", State.FAILED, "t", None, FAILURE, "Failed", b"50%", 3, "w"),
        TaskState("c", State.SUCCEEDED, "t", b"1"),
    ]
    assert reports.to_states(travelled(reports.from_states(states))) == states
    peeked = [
        Peeked("a", "t", State.DELAYED, FULL, 1, 2.5),
        Peeked("b", "t", State.RUNNING, None, worker="w"),
    ]
    assert reports.to_peeked(travelled(reports.from_peeked(peeked))) == peeked


def test_dead_letters_and_locks_come_back() -> None:
    letters = [
        DeadLetter("a", "t", "Failed", 1e9, FULL, FAILURE, 4, 3, 1, 2, "w"),
        DeadLetter("b", "t", "Undecodable", 1e9, None, raw=b"\xff"),
        None,
    ]
    for letter in letters:
        assert reports.to_dead(travelled(reports.from_dead(letter))) == letter
    for lock in (Lock("n", "h", 4, 2.5), None):
        assert reports.to_lock(travelled(reports.from_lock(lock))) == lock
