"""Names and ids that not every store can hold are refused by every verb that takes one, in the same words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers.base import Ask, Broker, State
from millgate.errors import InvalidInput
from millgate.fleet import Beat, WorkerRef
from millgate.queues import Subscription
from support.builders import a_message, a_topic, an_info

BAD = pytest.mark.parametrize("bad", ["a\x00b", "\ud800"], ids=["NUL", "surrogate"])
Verb = Callable[[Broker, str], object]
VERBS: dict[str, Verb] = {
    "acquire a lock": lambda broker, bad: broker.acquire(bad, "h", 5.0),
    "acquire as a holder": lambda broker, bad: broker.acquire("l", bad, 5.0),
    "renew": lambda broker, bad: broker.renew(bad, "h", 1, 5.0),
    "release": lambda broker, bad: broker.release(bad),
    "register": lambda broker, bad: broker.register(WorkerRef(bad, "i"), an_info()),
    "register a start": lambda broker, bad: broker.register(WorkerRef("w", bad), an_info()),
    "unregister": lambda broker, bad: broker.unregister(WorkerRef(bad, "i")),
    "fence": lambda broker, bad: broker.fence(bad, 5.0),
    "unfence": lambda broker, bad: broker.unfence(bad),
    "claim": lambda broker, bad: broker.claim(WorkerRef(bad, "i"), Ask(Subscription(), 1)),
    "extend": lambda broker, bad: broker.extend(WorkerRef(bad, "i"), [], Beat()),
    "fire": lambda broker, bad: broker.fire(bad, 1.0, [a_message()]),
    "states": lambda broker, bad: broker.states(["a", bad]),
    "wait": lambda broker, bad: broker.wait(["a", bad], 0.01),
    "peek": lambda broker, bad: broker.peek(bad, State.WAITING),
    "cancel": lambda broker, bad: broker.cancel([bad]),
    "requeue": lambda broker, bad: broker.requeue([bad]),
    "purge": lambda broker, bad: broker.purge(bad),
    "dead": lambda broker, bad: broker.dead(bad),
    "dead after": lambda broker, bad: broker.dead(None, 10, bad),
    "dead letter": lambda broker, bad: broker.dead_letter(bad),
    "replay": lambda broker, bad: broker.replay([bad]),
    "purge the dead": lambda broker, bad: broker.purge_dead(bad),
    "purge one of the dead": lambda broker, bad: broker.purge_dead(None, [bad]),
}


@BAD
@pytest.mark.parametrize("verb", VERBS)
def test_what_cannot_be_stored_is_refused_by_every_verb(
    broker: Broker, verb: str, bad: str
) -> None:
    with pytest.raises(InvalidInput, match="NUL and lone surrogates cannot be stored"):
        VERBS[verb](broker, bad)
    assert (broker.locks(), broker.schedules(), broker.stats().workers) == ([], {}, ())
    assert broker.stats().topics == {}


@BAD
def test_a_topic_is_called_what_topics_can_be_called(broker: Broker, bad: str) -> None:
    for name in (bad, "no good", ""):
        for verb in (
            lambda: broker.publish([a_message(topic=name)]),  # noqa: B023 -- called at once
            lambda: broker.configure([a_topic(name)]),  # noqa: B023
            lambda: broker.pause(name, True),  # noqa: B023
        ):
            with pytest.raises(InvalidInput, match="letters, digits"):
                verb()
    assert broker.stats().topics == {}


def test_a_name_has_at_most_a_thousand_bytes_or_so(broker: Broker) -> None:
    most, long = "ü" * 512, "ü" * 513
    assert broker.acquire(most, most, 60.0) is not None
    broker.register(WorkerRef(most, most), an_info())
    assert broker.fire(most, 1.0, [])
    verbs: list[Callable[[], object]] = [
        lambda: broker.acquire(long, "h", 60.0),
        lambda: broker.acquire("l", long, 60.0),
        lambda: broker.register(WorkerRef(long, "i"), an_info()),
        lambda: broker.register(WorkerRef("w", long), an_info()),
        lambda: broker.fire(long, 1.0, []),
    ]
    for verb in verbs:
        with pytest.raises(InvalidInput, match="1026 bytes; use at most 1024"):
            verb()
