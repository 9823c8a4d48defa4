"""Entries that end at their time, and ids that are remembered for a while."""

from __future__ import annotations

from millgate.brokers.core.expiring import Expiring
from millgate.brokers.core.recent import Recent


def test_the_earliest_ends_first() -> None:
    kept: Expiring[str, int] = Expiring()
    for name, until in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        kept.set(name, 0, until)
    assert kept.due() == 1.0
    assert kept.pop_due(0.5) is None
    assert [kept.pop_due(9.0) for _ in range(4)] == [("a", 0), ("b", 0), ("c", 0), None]


def test_setting_again_renews() -> None:
    kept: Expiring[str, int] = Expiring()
    kept.set("a", 1, 1.0)
    kept.set("a", 2, 5.0)
    assert kept.pop_due(3.0) is None
    assert (kept.get("a"), kept.until("a"), len(kept)) == (2, 5.0, 1)
    assert kept.pop_due(5.0) == ("a", 2)


def test_what_is_taken_out_does_not_come_back() -> None:
    kept: Expiring[str, int] = Expiring()
    kept.set("a", 1, 1.0)
    assert kept.pop("a") == 1
    assert kept.pop("a") is None
    assert kept.due() is None


def test_a_thousand_renewals_do_not_pile_up() -> None:
    kept: Expiring[str, int] = Expiring()
    for step in range(10_000):
        kept.set("a", step, 100.0 + step)
        kept.set(f"b{step}", 0, 1e9)
        kept.pop(f"b{step}")
    assert len(kept._heap) < 200


def test_all_ends_move_with_the_clock() -> None:
    kept: Expiring[str, int] = Expiring()
    kept.set("a", 1, 10.0)
    kept.shift(100.0)
    assert kept.pop_due(50.0) is None
    assert kept.pop_due(110.0) == ("a", 1)


def test_an_id_is_remembered_for_the_promised_time_and_not_for_ever() -> None:
    recent = Recent(keep=60.0)
    for second in range(0, 300, 5):
        now = float(second)
        recent.current(now)[f"m{second}"] = "t"
        for earlier in range(max(0, second - 59), second, 5):
            if earlier % 5 == 0:
                assert recent.get(f"m{earlier}") == "t"
        recent.turn(now)
        assert recent.get(f"m{second - 100}") is None
    assert len(recent) <= 20


def test_ids_are_bounded_in_number_and_the_newest_stay() -> None:
    recent = Recent(keep=60.0, most=1000)
    for n in range(10_000):
        recent.current(1.0 + n / 1e4)[f"m{n}"] = "t"
    assert len(recent) <= 1250
    assert recent.get("m9999") == "t"
    assert recent.get("m9500") == "t"
    assert recent.get("m100") is None


def test_memories_survive_being_written_down() -> None:
    recent, again = Recent(), Recent()
    recent.current(5.0)["m"] = "t"
    again.load(recent.dump())
    assert again.get("m") == "t"
