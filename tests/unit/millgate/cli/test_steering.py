"""cancel, requeue, pause, purge, dead, locks, schedule: what they change, and what they answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers import open_broker
from millgate.brokers.base import Ask, State
from millgate.fleet import WorkerInfo, WorkerRef
from millgate.outcome import Failure, Reason
from millgate.settlement import Ack, Bury
from support.builders import a_message

from .conftest import Shell


@pytest.fixture
def buried(shell: Shell, sent: Callable[..., str]) -> Callable[..., str]:
    """Send a task, let it fail for good, and answer its id."""

    def bury(topic: str = "default") -> str:
        name = sent("--topic", topic, "--args", "[7]")
        (claim,) = shell.claim()
        failure = Failure("app.Broken", "it broke", "Traceback\n  line 3")
        shell.broker.settle([Bury(claim.ref, Reason.FAILED, failure)])
        return name

    return bury


def test_cancel_removes_what_waits_and_signals_what_runs(
    shell: Shell, sent: Callable[..., str]
) -> None:
    running = sent()
    shell.claim()
    waiting = sent()
    answers = shell.json("cancel", waiting, running)
    assert shell.code == 0
    assert [answer["state"] for answer in answers] == ["removed", "signalled"]
    assert shell.broker.peek("default", State.WAITING) == []


def test_cancelling_too_late_is_a_no(shell: Shell, sent: Callable[..., str]) -> None:
    name = sent()
    (claim,) = shell.claim()
    shell.broker.settle([Ack(claim.ref, b"1")])
    assert shell("cancel", name, "unheard-of") == 1
    assert "too late" in shell.out
    assert "unknown" in shell.out


def test_requeue_takes_a_task_from_its_holder(shell: Shell, sent: Callable[..., str]) -> None:
    name = sent()
    (claim,) = shell.claim()
    assert shell("requeue", name) == 0
    assert shell.broker.settle([Ack(claim.ref, b"1")]) == (name,)
    assert [item.id for item in shell.broker.peek("default", State.WAITING)] == [name]
    assert shell("requeue", name) == 1
    assert "not running" in shell.out


def test_pause_stops_claims_and_resume_lets_them_go_on(
    shell: Shell, sent: Callable[..., str]
) -> None:
    sent("--topic", "mail")
    assert shell("pause", "mail") == 0
    assert shell.claim() == ()
    assert shell.json("status")["stats"]["topics"]["mail"]["paused"]
    assert shell.json("resume", "mail") == [{"topic": "mail", "paused": False}]
    assert len(shell.claim()) == 1


def test_purge_wants_a_yes(shell: Shell, sent: Callable[..., str]) -> None:
    sent("--topic", "mail")
    sent("--topic", "mail", "--delay", "1h")
    assert shell("purge", "mail") == 2
    assert "--yes" in shell.err
    shell.typed = "n\n"
    assert shell("purge", "mail") == 1
    assert len(shell.broker.peek("mail", State.WAITING)) == 1
    shell.typed = "y\n"
    assert shell("purge", "mail", "--state", "waiting") == 0
    assert shell.broker.peek("mail", State.WAITING) == []
    shell.typed = ""
    assert shell.json("purge", "mail", "--yes") == {"topic": "mail", "removed": 1}


def test_dead_letters_are_listed_newest_first_and_shown_whole(
    shell: Shell, buried: Callable[..., str]
) -> None:
    first, second = buried("mail"), buried("video")
    listed = shell.json("dead", "list")
    assert {letter["id"] for letter in listed} == {first, second}
    assert [letter["id"] for letter in shell.json("dead", "list", "--topic", "video")] == [second]
    assert len(shell.json("dead", "list", "--limit", "1")) == 1
    letter = shell.json("dead", "show", first)
    assert letter["reason"] == "Failed"
    assert letter["failure"]["message"] == "it broke"
    assert shell("dead", "show", first) == 0
    assert "line 3" in shell.out
    assert shell("dead", "show", "nobody") == 1


def test_a_long_failure_is_cut_in_the_list_with_a_mark(
    shell: Shell, sent: Callable[..., str]
) -> None:
    sent()
    (claim,) = shell.claim()
    shell.broker.settle([Bury(claim.ref, Reason.FAILED, Failure("KeyError", "x" * 80))])
    shell("dead", "list")
    assert shell.out.rstrip().endswith("KeyError: " + "x" * 49 + "…")


def test_dead_letters_are_replayed_whole(shell: Shell, buried: Callable[..., str]) -> None:
    name = buried("mail")
    assert shell.json("dead", "replay", name, "nobody") == {
        "replayed": [name],
        "missing": ["nobody"],
    }
    assert shell.code == 1
    (claim,) = shell.claim("w2")
    assert (claim.id, claim.attempt, claim.message().task) == (name, 1, "work")


def test_a_whole_topic_of_dead_letters_is_replayed(
    shell: Shell, buried: Callable[..., str]
) -> None:
    names = {buried("mail"), buried("mail")}
    other = buried("video")
    assert set(shell.json("dead", "replay", "--topic", "mail")["replayed"]) == names
    assert [letter["id"] for letter in shell.json("dead", "list")] == [other]


def test_dead_letters_are_purged_after_a_yes(shell: Shell, buried: Callable[..., str]) -> None:
    name = buried()
    buried()
    assert shell("dead", "purge", "--all") == 2
    assert shell.json("dead", "purge", name, "--yes") == {"removed": 1}
    assert shell.json("dead", "purge", "--all", "--yes") == {"removed": 1}
    assert shell.json("dead", "list") == []


def test_a_list_that_is_cut_says_how_to_go_on(shell: Shell, buried: Callable[..., str]) -> None:
    buried()
    (newest,) = shell.json("dead", "list", "--limit", "1")
    assert shell.err == f"millgate: the newest 1; go on with --after {newest['id']}\n"
    assert shell.json("dead", "list", "--limit", "1", "--after", newest["id"]) == []
    assert shell.err == ""


@pytest.mark.parametrize("selection", [(), ("x", "--all"), ("--topic", "t", "--all")])
def test_which_dead_letters_must_be_said_once(shell: Shell, selection: tuple[str, ...]) -> None:
    assert shell("dead", "replay", *selection) == 2
    assert "--all" in shell.err


def test_locks_are_listed_and_released_by_force(shell: Shell) -> None:
    shell.broker.acquire("invoice", "w1", 60)
    (lock,) = shell.json("locks")
    assert (lock["name"], lock["holder"]) == ("invoice", "w1")
    assert shell("locks", "release", "invoice") == 0
    assert shell("locks", "release", "invoice") == 1
    assert shell.json("locks", "list") == []
    assert shell("locks", "release") == 2


def test_the_last_slot_of_each_schedule_is_shown(shell: Shell) -> None:
    shell.broker.fire("nightly", 1_800_000_000.0, [a_message()])
    assert shell.json("schedule") == [{"schedule": "nightly", "lastSlot": "2027-01-15T08:00:00Z"}]


def test_commands_act_on_the_queue_that_is_named(shell: Shell) -> None:
    open_broker(shell.url, queue="other").setup()
    shell.json("send", "work", "--queue", "other")
    assert shell.json("tasks") == []
    shell.environ["MILLGATE_QUEUE"] = "other"
    assert len(shell.json("tasks")) == 1


def test_a_worker_keeps_its_claim_through_all_looking(
    shell: Shell, sent: Callable[..., str]
) -> None:
    sent()
    worker = WorkerRef("w1", "i1")
    shell.broker.register(worker, WorkerInfo())
    (claim,) = shell.broker.claim(worker, Ask()).claims
    for command in (("status",), ("tasks",), ("top", "--once"), ("why", claim.id)):
        shell(*command)
    assert shell.broker.settle([Ack(claim.ref)]) == ()
