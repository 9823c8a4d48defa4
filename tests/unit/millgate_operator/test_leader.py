"""Election by a Lease: one leads, others wait for as long as they must, and no clock but one's own counts."""

from __future__ import annotations

import copy
from typing import Any

from millgate_operator.cluster import ClusterError
from millgate_operator.leader import DEADLINE, DURATION, Leader
from support.clock import FakeClock

PLACE = ("system", "millgate")


class OneLease:
    """An API server with room for one Lease: create, read, and compare-and-set."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False

    def get(self, *_: object) -> dict[str, Any] | None:
        self._check()
        return copy.deepcopy(self.lease)

    def create(self, obj: dict[str, Any]) -> dict[str, Any] | None:
        self._check()
        if self.lease is not None:
            return None
        return self._store(obj)

    def replace(self, obj: dict[str, Any]) -> dict[str, Any]:
        self._check()
        assert self.lease is not None
        if obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ClusterError(409, "Conflict", "the object has been modified")
        return self._store(obj)

    def _check(self) -> None:
        if self.down:
            raise ClusterError(0, "Unreachable", "no answer")

    def _store(self, obj: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return self.lease

    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


def pair() -> tuple[OneLease, FakeClock, Leader, Leader]:
    cluster, clock = OneLease(), FakeClock()
    return cluster, clock, *(Leader(cluster, clock, PLACE, name) for name in ("one", "two"))  # type: ignore[arg-type,return-value]


def test_the_first_to_come_leads_and_the_other_does_not() -> None:
    cluster, _, one, two = pair()
    assert one.attempt()
    assert not two.attempt()
    assert (one.holds(), two.holds()) == (True, False)
    assert cluster.holder() == "one"


def test_a_leader_that_renews_is_never_replaced() -> None:
    _, clock, one, two = pair()
    one.attempt()
    for _ in range(60):
        clock.advance(2)
        assert one.attempt()
        assert not two.attempt()


def test_a_leader_that_is_gone_is_replaced_after_the_whole_duration() -> None:
    cluster, clock, one, two = pair()
    one.attempt()
    assert not two.attempt()
    clock.advance(DURATION - 1)
    assert not two.attempt()
    clock.advance(1)
    assert two.attempt()
    assert cluster.holder() == "two"
    assert cluster.lease is not None
    assert cluster.lease["spec"]["leaseTransitions"] == 1


def test_the_others_wall_clock_does_not_matter() -> None:
    _, clock, one, two = pair()
    one.attempt()
    clock.step(3600)  # the two hosts differ by an hour
    assert not two.attempt()
    clock.advance(DURATION - 1)
    assert not two.attempt()


def test_without_an_answer_a_leader_holds_until_its_deadline_and_no_longer() -> None:
    cluster, clock, one, _ = pair()
    one.attempt()
    cluster.down = True
    clock.advance(DEADLINE - 1)
    assert one.attempt()
    clock.advance(1)
    assert not one.holds()
    assert not one.attempt()


def test_a_leader_gives_up_before_another_may_take_over() -> None:
    assert DEADLINE < DURATION


def test_of_two_that_see_the_same_end_one_wins() -> None:
    cluster, clock, one, two = pair()
    three = Leader(cluster, clock, PLACE, "three")  # type: ignore[arg-type]
    one.attempt()
    two.attempt()
    three.attempt()
    clock.advance(DURATION)
    assert [two.attempt(), three.attempt()] == [True, False]


def test_a_lease_that_is_given_back_is_free_at_once() -> None:
    _, _, one, two = pair()
    one.attempt()
    one.release()
    assert not one.holds()
    assert two.attempt()


def test_a_lease_that_was_taken_is_noticed() -> None:
    cluster, _, one, _ = pair()
    one.attempt()
    assert cluster.lease is not None
    cluster.lease["spec"]["holderIdentity"] = "thief"
    assert not one.attempt()
    assert not one.holds()
