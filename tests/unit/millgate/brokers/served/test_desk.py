"""The desk: who is answered what and when, without a socket in sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millgate.brokers.base import Ask, State
from millgate.brokers.served import frames, reports, values
from millgate.brokers.served.caller import Caller
from millgate.brokers.served.desk import Came, Desk
from millgate.brokers.served.engine import Engine
from millgate.errors import BrokerUnavailable
from millgate.limits import Rate
from millgate.message import Claim
from millgate.queues import Subscription, TopicPolicy, policy_to_dict
from millgate.retry import RetryPolicy
from millgate.settlement import Ack
from support.builders import a_message, a_worker, an_info


class FullJournal:
    """A journal that has no room until it is told to."""

    def __init__(self) -> None:
        self.full = False
        self.before: Callable[[], None] = lambda: None
        self.kept: list[bytes] = []
        self.synced: list[bool] = []

    def append(self, records: list[bytes], *, on_disk: bool = True) -> None:
        self.before()
        if self.full:
            raise BrokerUnavailable("no room")
        self.kept += records
        self.synced.append(on_disk)


class Office:
    """A desk with peers that are only names, and a clock turned by hand."""

    def __init__(self, *, one_host: bool = False) -> None:
        self.engine, self.journal = Engine(), FullJournal()
        self.answers: dict[str, list[Any]] = {}
        self.now, self.number = 1_000_000.0, 0
        self.kept_back: list[tuple[str, Any]] = []
        self.desk = Desk(
            self.engine,
            self.journal,  # type: ignore[arg-type]
            self.send,
            lambda: {"pid": 7},
            one_host=one_host,
            flush=self.flush,
        )

    def send(self, connection: Any, payload: bytes) -> None:
        self.kept_back.append((connection, frames.unpack(payload)[1:]))

    def flush(self) -> None:
        for connection, answer in self.kept_back:
            self.answers.setdefault(connection, []).append(answer)
        self.kept_back.clear()

    def came(self, who: str, verb: str, *args: object) -> Came:
        self.number += 1
        payload = frames.pack([self.number, self.number, verb, args])
        self.desk.leave(who)  # type: ignore[arg-type]
        return Came(who, Caller(who, "q"), payload)  # type: ignore[arg-type]

    def turn(self, *calls: Came) -> dict[str, list[Any]]:
        """What is answered in this turn."""
        self.answers = {}
        self.desk.turn(self.now, self.now, calls)
        self.flush()
        return self.answers

    def do(self, who: str, verb: str, *args: object) -> Any:
        """The answer to one call, by itself."""
        return self.turn(self.came(who, verb, *args)).get(who)

    def wait(self, who: str, *topics: str, timeout: float = 60.0) -> Any:
        return self.do(
            who, "wait_for_work", values.from_subscription(Subscription(topics)), timeout
        )

    def publish(self, count: int = 1, **fields: Any) -> dict[str, list[Any]]:
        plain = [values.from_message(a_message(**fields)) for _ in range(count)]
        self.do("producer", "publish", plain, None)
        return {who: said for who, said in self.answers.items() if who != "producer"}

    def pass_time(self, seconds: float) -> dict[str, list[Any]]:
        self.now += seconds
        return self.turn()

    def wake_in(self) -> float | None:
        return self.desk.wake_in(self.now, self.now)


@pytest.fixture
def office() -> Office:
    return Office()


def test_that_a_lease_has_ended_is_stored_before_anybody_hears_of_it(office: Office) -> None:
    retry = RetryPolicy(losses=0)
    policy = policy_to_dict(TopicPolicy("default", lease=10.0, retry=retry))
    office.do("operator", "configure", [policy], None, False)
    office.publish(id="m")
    worker = values.from_worker(a_worker("w"))
    office.do("w", "register", worker, values.from_info(an_info()))
    office.do("w", "claim", worker, values.from_ask(Ask(n=1)), [])
    assert office.do("waiter", "wait", ["m"], 60.0) is None
    before = len(office.journal.kept)
    assert office.pass_time(5.0) == {}
    assert len(office.journal.kept) == before
    ((states,),) = office.pass_time(5.0)["waiter"]
    assert reports.to_states(states)[0].state is State.FAILED
    next_ = Engine()
    for record in office.journal.kept:
        next_.replay(record)
    next_.replay(next_.resumption(office.now + 1.0))  # somebody takes over
    assert next_.core("q").states(office.now + 1.0, ["m"])[0].state is State.FAILED
    office.publish(id="n")
    office.do("w", "claim", worker, values.from_ask(Ask(n=1)), [])
    office.journal.full = True
    office.pass_time(10.0)  # nobody can renew it, either
    assert office.engine.core("q").states(office.now, ["n"])[0].state is State.FAILED


def test_as_many_are_woken_as_there_is_work_for_the_longest_waiting_first(office: Office) -> None:
    for who in "abcde":
        assert office.wait(who) is None
    assert office.publish(2) == {"a": [[True]], "b": [[True]]}


def test_what_the_woken_leave_wakes_the_others_a_little_later(office: Office) -> None:
    for who in "abc":
        office.wait(who)
    assert office.publish(1) == {"a": [[True]]}
    due = office.wake_in()
    assert due is not None
    assert 0 < due < 1
    assert office.pass_time(due) == {"b": [[True]], "c": [[True]]}
    assert office.wake_in() is None


def test_when_the_woken_have_taken_it_the_others_sleep_on(office: Office) -> None:
    worker = values.from_worker(a_worker())
    office.do("a", "register", worker, values.from_info(an_info()))
    for who in "abc":
        office.wait(who)
    office.publish(1)
    office.do("a", "claim", worker, values.from_ask(Ask(n=5)), [])
    assert office.pass_time(1) == {}
    due = office.wake_in()
    assert due is not None
    assert due > 5


def heard_before_the_store(office: Office, *calls: Came) -> dict[str, list[Any]]:
    """Who was answered what when the journal was asked to store these calls."""
    heard: dict[str, list[Any]] = {}
    office.journal.before = lambda: heard.update(office.answers)
    office.turn(*calls)
    office.journal.before = lambda: None
    return heard


def sent(office: Office, count: int = 1, **fields: Any) -> Came:
    plain = [values.from_message(a_message(**fields)) for _ in range(count)]
    return office.came("producer", "publish", plain, None)


def test_who_waits_comes_while_what_is_sure_to_be_claimable_is_stored(office: Office) -> None:
    office.publish(1, topic="other")  # so that there is a queue
    for who in "abc":
        office.wait(who, "mail")
    office.publish(1, topic="mail")
    office.do("producer", "purge", "mail", ["waiting"])
    office.wait("a", "mail")
    assert heard_before_the_store(office, sent(office, 2, topic="mail")) == {
        "b": [[True]],
        "c": [[True]],
    }
    assert set(office.answers) == {"producer", "b", "c"}  # one for each message, not one more
    due = office.wake_in()
    assert due is not None
    assert office.pass_time(due) == {"a": [[True]]}  # what the woken leave


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"limit": 0}, {}),
        ({"limit": 1}, {}),
        ({"rate": Rate(1, 60)}, {}),
        ({"key_limit": 1}, {"key": "k"}),
        ({"paused": True}, {}),
        ({}, {"delay": 60.0}),
        ({}, {"unique": "u"}),
    ],
)
def test_who_waits_is_not_told_early_of_what_may_not_start(
    office: Office, policy: dict[str, Any], message: dict[str, Any]
) -> None:
    office.do("x", "configure", [policy_to_dict(TopicPolicy("mail", **policy))], None, False)
    office.wait("a", "mail")
    assert heard_before_the_store(office, sent(office, topic="mail", **message)) == {}


def test_a_store_that_fails_after_it_was_foretold_leaves_nothing(office: Office) -> None:
    office.publish(1, topic="mail")
    office.do("producer", "purge", "mail", ["waiting"])
    office.wait("a", "mail")
    office.journal.full = True
    assert office.turn(sent(office, topic="mail"))["a"] == [[True]]
    assert office.wait("a", "mail") is None


def test_nonsense_that_is_published_wakes_nobody(office: Office) -> None:
    office.publish(1, topic="mail")
    office.do("producer", "purge", "mail", ["waiting"])
    office.wait("a", "mail")
    for args in ((), (1, None), ([[]], None), ([["id", ["mail"], *[None] * 12]], None)):
        assert "a" not in office.turn(office.came("producer", "publish", *args))


def test_only_who_takes_the_topic_is_woken(office: Office) -> None:
    office.wait("mail", "mail.*")
    office.wait("video", "video")
    assert office.publish(1, topic="video") == {"video": [[True]]}


def test_work_that_is_there_answers_at_once_and_none_at_all_at_the_timeout(office: Office) -> None:
    office.wait("late", timeout=5.0)
    assert office.pass_time(4.9) == {}
    assert office.pass_time(0.2) == {"late": [[None]]}
    office.publish(1)
    assert office.wait("next") == [[True]]
    assert office.wait("other", "none", timeout=0.0) == [[None]]


def test_a_new_call_on_a_connection_ends_its_wait(office: Office) -> None:
    office.wait("a")
    assert office.do("a", "stats")
    assert office.publish(1) == {}


def test_who_is_gone_is_not_woken_in_place_of_another(office: Office) -> None:
    office.wait("gone")
    office.wait("there")
    office.desk.leave("gone")  # type: ignore[arg-type]
    assert office.publish(1) == {"there": [[True]]}


def test_a_rate_that_refills_wakes_who_waits(office: Office) -> None:
    policy = TopicPolicy("slow", rate=Rate(1, 10.0))
    office.do("op", "configure", [policy_to_dict(policy)], None, False)
    worker = values.from_worker(a_worker())
    office.do("w", "register", worker, values.from_info(an_info()))
    office.publish(2, topic="slow")
    claimed = office.do("w", "claim", worker, values.from_ask(Ask(n=2)), [])
    assert len(claimed[0][0][0]) == 1
    assert office.wait("w") is None
    due = office.wake_in()
    assert due is not None
    assert 9 < due <= 10
    assert office.pass_time(due) == {"w": [[True]]}


def test_a_delay_that_ends_wakes_who_waits(office: Office) -> None:
    office.wait("w")
    office.publish(1, delay=3.0)
    assert office.wake_in() == pytest.approx(3.0)
    assert office.pass_time(3.0) == {"w": [[True]]}


def test_waits_that_were_answered_long_before_their_time_leave_nothing(office: Office) -> None:
    office.wait("patient", "never", timeout=50.0)
    for _ in range(500):
        office.wait("w", timeout=3600.0)
        office.publish(1)
        office.do("op", "purge", "default", ["waiting"])
    assert len(office.desk._ends) < 200
    assert office.pass_time(50.0) == {"patient": [[None]]}


def test_the_end_of_a_message_answers_who_waits_for_it(office: Office) -> None:
    worker = values.from_worker(a_worker())
    office.do("w", "register", worker, values.from_info(an_info()))
    office.publish(1, id="one")
    office.publish(1, id="two")
    assert office.do("client", "wait", ["one", "two"], 60.0) is None
    assert office.do("other", "wait", ["elsewhere"], 60.0) is None
    claims = office.do("w", "claim", worker, values.from_ask(Ask(n=2)), [])[0][0][0]
    ack = values.from_settlement(Ack(Claim(*claims[1]).ref, b"1"))
    office.do("w", "settle", [ack])
    states = reports.to_states(office.answers["client"][0][0])
    assert [state.state for state in states] == [State.RUNNING, State.SUCCEEDED]
    assert "other" not in office.answers
    assert office.do("client", "wait", ["two"], 60.0) is not None  # it has ended already


def test_when_nothing_can_be_stored_the_callers_are_told_and_nothing_has_happened(
    office: Office,
) -> None:
    office.wait("w")
    office.journal.full = True
    plain = [values.from_message(a_message(id="m"))]
    refused = office.do("producer", "publish", plain, None)
    assert refused == [["BrokerUnavailable", "no room"]]
    assert "w" not in office.answers
    assert reports.to_states(office.do("client", "states", ["m"])[0][0])[0].state is State.UNKNOWN
    office.journal.full = False
    office.do("producer", "publish", plain, None)
    assert office.answers["w"] == [[True]]


def test_a_call_that_was_carried_out_is_neither_stored_nor_carried_out_again(
    office: Office,
) -> None:
    came = office.came("producer", "publish", [values.from_message(a_message(id="m"))], None)
    first = office.turn(came)
    kept = list(office.journal.kept)
    assert office.turn(came) == first == {"producer": [[[["m", False]]]]}
    assert office.journal.kept == kept


def test_verbs_that_nobody_knows_and_arguments_that_make_no_sense_are_refused(
    office: Office,
) -> None:
    assert office.do("c", "os.system", "true")[0][0] == "UnsupportedByBroker"
    assert office.do("c", "wait_for_work", "nonsense")[0][0] == "BrokerError"
    assert office.do("c", "wait", ["x"], None)[0][0] == "BrokerError"
    assert office.do("c", "server") == [[{"pid": 7}]]


@pytest.mark.parametrize("one_host", [True, False])
def test_what_workers_say_is_on_the_disk_at_once_only_where_they_outlive_a_power_cut(
    one_host: bool,
) -> None:
    office = Office(one_host=one_host)
    worker = values.from_worker(a_worker("w"))
    office.publish(1)
    office.do("w", "register", worker, values.from_info(an_info()))
    [claim] = office.do("w", "claim", worker, values.from_ask(Ask(n=1)), [])[0][0][0]
    assert office.journal.synced == [True, not one_host, not one_host]
    ack = values.from_settlement(Ack(Claim(*claim).ref))
    office.do("w", "claim", worker, values.from_ask(Ask(n=1)), [ack])
    assert office.journal.synced[-1] is not one_host
    office.publish(1)
    assert office.journal.synced[-1]
    assert len(office.journal.kept) == 5


def test_what_is_stored_is_carried_out_even_where_an_answer_cannot_be_sent(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.publish(3)
    for name in "abc":
        office.do(name, "register", values.from_worker(a_worker(name)), values.from_info(an_info()))
    ask = values.from_ask(Ask(n=1))
    calls = [office.came(who, "claim", values.from_worker(a_worker(who)), ask, []) for who in "ab"]

    def lost(_line: Any, _payload: bytes) -> None:
        raise ConnectionResetError

    with monkeypatch.context() as patch:
        patch.setattr(office.desk, "_send", lost)
        with pytest.raises(ConnectionResetError):
            office.turn(*calls)
    again = Engine()
    for record in office.journal.kept:
        again.replay(record)
    assert again.dump() == office.engine.dump()


@pytest.mark.parametrize("arguments", [([[5], [], False], 2.0), ([["a"], [], False], float("nan"))])
def test_a_wait_that_makes_no_sense_disturbs_nobody_else(office: Office, arguments: Any) -> None:
    office.do("meddler", "wait_for_work", *arguments)
    assert office.wait("worker") is None
    assert office.publish()["worker"] == [[True]]
