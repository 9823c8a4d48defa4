"""The lane: rank order, the oldest, and nothing that piles up."""

from __future__ import annotations

import random

from millgate.brokers.core.line import Line
from millgate.brokers.core.row import GONE, Row
from millgate.brokers.core.topic import Topic
from millgate.message import Message
from millgate.queues import TopicPolicy

TOPIC = Topic(TopicPolicy(name="t"), declared=True)


def row(seq: int, priority: int = 5) -> Row:
    return Row(Message(f"m{seq}", "t", "work", b"", priority), TOPIC, b"", seq)


def test_random_moves_agree_with_a_sorted_list() -> None:
    for seed in range(20):
        dice, line, plain = random.Random(seed), Line(), []
        aside: list[Row] = []
        for step in range(400):
            kind = dice.randrange(4)
            if kind == 0 or (kind == 1 and not aside):
                plain.append(new := row(step, dice.randrange(10)))
                line.push(new, float(step))
            elif kind == 1:
                plain.append(back := aside.pop(dice.randrange(len(aside))))
                line.push(back, float(step))
            elif kind == 2 and plain:
                first = min(plain, key=lambda each: each.rank)
                assert line.pop() is first
                plain.remove(first)
                aside.append(first)
            elif plain:
                gone = plain.pop(dice.randrange(len(plain)))
                gone.where = GONE
                line.left()
                aside.append(gone)
            assert line.live == len(plain)
            assert line.peek(1000) == sorted(plain, key=lambda each: each.rank)
            assert line.oldest() == min((each.ready for each in plain), default=None)


def test_nothing_piles_up_when_rows_come_and_go_in_the_middle() -> None:
    line = Line()
    keeper = row(0, priority=0)
    line.push(keeper, 0.0)
    for step in range(1, 5000):
        line.push(row(step, priority=9), float(step))
        line.pop()
        cancelled = row(10_000 + step, priority=7)
        line.push(cancelled, float(step))
        cancelled.where = GONE
        line.left()
    assert line.live == 1
    assert len(line.fresh) + len(line.back) + len(line.ages) < 300
    assert line.oldest() == 0.0
