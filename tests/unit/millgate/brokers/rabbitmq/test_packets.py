"""Frames as the driver writes and reads them: what is written here it reads, and what it writes is read here."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import frame as frames
from pika import spec

from millgate.brokers.rabbitmq.packets import (
    Arrival,
    Kind,
    Properties,
    Splitter,
    acknowledgement,
    message,
    properties,
)

SMALL = 4096  # bytes of the largest frame: the least that a server may ask for
short = st.text(max_size=60)
said = st.builds(
    Properties, correlation_id=short, reply_to=short, expiration=short, type=short, app_id=short
)


def read(data: bytes) -> list[Any]:
    """The driver's frames in these bytes."""
    found = []
    while data:
        size, frame = frames.decode_frame(data)
        assert frame is not None
        found.append(frame)
        data = data[size:]
    return found


def written(method: Any, of: spec.BasicProperties | None = None, body: bytes = b"") -> bytes:
    """What the driver makes of a method and its content, on channel 7."""
    made = [frames.Method(7, method)]
    if of is not None:
        made += [frames.Header(7, len(body), of)]
        room = SMALL - 8
        made += [frames.Body(7, body[at : at + room]) for at in range(0, len(body), room)]
    return b"".join(one.marshal() for one in made)


@given(said, st.booleans(), st.booleans())
@pytest.mark.parametrize("size", [0, 1, SMALL - 8, SMALL - 7, 3 * SMALL])
def test_the_driver_reads_a_message_as_it_was_meant(
    size: int, of: Properties, persistent: bool, mandatory: bool
) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    data = message(
        7, "a.queue", body, of.pack(persistent=persistent), mandatory=mandatory, largest=SMALL
    )
    method, header, *bodies = read(data)
    assert (method.channel_number, header.channel_number) == (7, 7)
    assert (method.method.exchange, method.method.routing_key) == ("", "a.queue")
    assert (bool(method.method.mandatory), header.body_size) == (mandatory, size)
    assert b"".join(one.fragment for one in bodies) == body
    assert all(len(one.marshal()) <= SMALL for one in bodies)
    for name in Properties.__slots__:
        assert (getattr(header.properties, name) or "") == getattr(of, name)
    assert header.properties.delivery_mode == (2 if persistent else None)


def test_the_driver_reads_an_acknowledgement_of_all_up_to_one() -> None:
    (one,) = read(acknowledgement(7, 12))
    assert (one.channel_number, one.method.delivery_tag, one.method.multiple) == (7, 12, True)


@given(
    said,
    st.sets(st.sampled_from(["content_type", "headers", "delivery_mode", "timestamp", "user_id"])),
)
def test_what_a_message_says_is_found_between_what_nobody_asks_for(
    of: Properties, others: set[str]
) -> None:
    values: dict[str, Any] = {
        "content_type": "text/plain", "headers": {"a": 1}, "delivery_mode": 2, "timestamp": 7, "user_id": "guest",
    }  # fmt: skip
    made = spec.BasicProperties(
        **{name: values[name] for name in others},
        **{name: getattr(of, name) or None for name in Properties.__slots__},
    )
    assert properties(b"".join(made.encode())) == of


@given(st.binary(max_size=40))
def test_properties_that_make_no_sense_are_none_and_no_error(data: bytes) -> None:
    assert isinstance(properties(data), Properties)
    assert properties(b"\x04\x00") == Properties(), "shorter than it says"


#: What a server may send on a channel, as bytes and as what is made of it; None: not for the inbox.
SENT: list[tuple[bytes, Arrival | None]] = [
    (
        written(spec.Basic.Deliver("a tag", 9, False, "", "q"), spec.BasicProperties(type="t"), b"x" * 9000),
        Arrival(Kind.DELIVERED, 9, Properties(type="t").pack(), b"x" * 9000),
    ),
    (
        written(spec.Basic.Return(312, "NO_ROUTE", "", "q"), spec.BasicProperties(), b""),
        Arrival(Kind.RETURNED, 0, Properties().pack(), b""),
    ),
    (written(spec.Basic.Ack(5, True)), Arrival(Kind.CONFIRMED, 5)),
    (written(spec.Basic.Nack(6, False, False)), Arrival(Kind.REFUSED, 6)),
    (written(spec.Basic.ConsumeOk("a tag")), None),
    (written(spec.Channel.Close(404, "NOT_FOUND", 60, 40)), None),
    (frames.Heartbeat().marshal(), None),
    (frames.Method(8, spec.Basic.Ack(5, True)).marshal(), None),
]  # fmt: skip


@given(st.lists(st.sampled_from(SENT), max_size=8), st.data())
def test_what_a_server_sends_reaches_the_inbox_or_the_driver_however_it_is_cut(
    sent: list[tuple[bytes, Arrival | None]], data: st.DataObject
) -> None:
    arrived: list[Arrival] = []
    rest: list[bytes] = []
    stream = b"".join(part for part, _ in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    splitter = Splitter(rest.append, stream[: cuts[0]] if cuts else b"")
    splitter.open(7, arrived.append)
    for begin, end in zip(cuts or [0], [*cuts[1:], len(stream)], strict=True):
        splitter.feed(stream[begin:end])
    assert arrived == [arrival for _, arrival in sent if arrival is not None]
    assert b"".join(rest) == b"".join(part for part, arrival in sent if arrival is None)


def test_a_sign_of_life_between_the_frames_of_a_message_does_not_cut_it() -> None:
    arrived: list[Arrival] = []
    rest: list[bytes] = []
    splitter = Splitter(rest.append)
    splitter.open(7, arrived.append)
    whole, arrival = SENT[0]
    sizes, left = [], whole
    while left:
        size, _ = frames.decode_frame(left)
        sizes.append(size)
        left = left[size:]
    for size in sizes:
        splitter.feed(whole[:size] + frames.Heartbeat().marshal())
        whole = whole[size:]
    assert arrived == [arrival]
    assert len(rest) == len(sizes)
