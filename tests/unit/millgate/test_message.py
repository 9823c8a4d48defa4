"""Messages survive the bytes they travel in; what is not one is refused as such."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import NotDecodable
from millgate.message import Claim, Message, Options, pack, unpack, with_record

seconds = st.none() | st.floats(-1e9, 1e9)
options = st.builds(
    Options,
    soft_timeout=seconds,
    hard_timeout=seconds,
    attempts=st.none() | st.integers(1, 100),
    backoff=st.none() | st.dictionaries(st.text(), st.text() | st.floats(0, 9)),
)


def messages(chain: st.SearchStrategy[tuple[Message, ...]]) -> st.SearchStrategy[Message]:
    return st.builds(
        Message,
        id=st.text(min_size=1),
        topic=st.text(min_size=1),
        task=st.text(min_size=1),
        body=st.binary(),
        priority=st.integers(0, 9),
        key=st.none() | st.text(),
        delay=seconds,
        at=seconds,
        expires_in=seconds,
        expires_at=seconds,
        unique=st.none() | st.text(),
        unique_for=seconds,
        result_ttl=seconds,
        group=st.none() | st.text(),
        gather=st.lists(st.text(), max_size=3).map(tuple),
        feed=st.booleans(),
        options=options,
        headers=st.dictionaries(st.text(), st.text(), max_size=3),
        chain=chain,
    )


any_message = messages(st.lists(messages(st.just(())), max_size=2).map(tuple))


@given(any_message)
def test_a_message_survives_packing(message: Message) -> None:
    assert unpack(pack(message)) == message


@given(any_message)
def test_a_claim_has_the_message_but_for_what_decided_its_time(message: Message) -> None:
    claim = Claim(
        message.id,
        message.topic,
        "token",
        message.record(),
        priority=message.priority,
        key=message.key,
        result_ttl=message.result_ttl,
        group=message.group,
    )
    spent: dict[str, Any] = dict.fromkeys(
        ("delay", "at", "expires_in", "expires_at", "unique", "unique_for")
    )
    assert claim.message() == replace(message, **spent)
    options = None if message.options.empty else message.options
    assert claim.head() == (message.task, options, message.gather)
    assert claim.ref.token == "token"


@given(any_message, any_message)
def test_a_record_carries_the_unread_half(one: Message, other: Message) -> None:
    joined = with_record(one, other.record())
    assert (joined.id, joined.topic, joined.unique) == (one.id, one.topic, one.unique)
    assert (joined.task, joined.body, joined.chain) == (other.task, other.body, other.chain)


@given(st.text(min_size=1), st.binary(max_size=300))
def test_a_record_without_extras_is_the_same_however_it_was_written(task: str, body: bytes) -> None:
    plain = Message("a", "t", task, body)
    whole = msgpack.packb([1, task, body, None, None, False, None, None])
    assert plain.record() == replace(plain, options=Options()).record() == whole


# --- hostile bytes -------------------------------------------------------------------------------

GOOD: list[Any] = [1, "work", b"[[],{}]", None, None, False, None, None]


def changed(index: int, value: Any) -> bytes:
    record = list(GOOD)
    record[index] = value
    return bytes(msgpack.packb(record))


HOSTILE = {
    "nothing": b"",
    "not msgpack": b"\xc1",
    "cut": msgpack.packb(GOOD)[:-1],
    "more after it": msgpack.packb(GOOD) + b"\x00",
    "a number": msgpack.packb(1),
    "a map": msgpack.packb({"task": "work"}),
    "too short": msgpack.packb(GOOD[:-1]),
    "too long": msgpack.packb([*GOOD, 1]),
    "a newer format": changed(0, 2),
    "no task": changed(1, 7),
    "no body": changed(2, "text"),
    "options of another shape": changed(3, [1, 2, 3, 4, 5, 6]),
    "options that are no numbers": changed(3, ["soon", None, None, None]),
    "headers that are no texts": changed(4, {"a": 1}),
    "a chain of numbers": changed(7, [1]),
    "a chain that is no list": changed(7, 5),
    "gather that is no list": changed(6, 5),
    "a step that is cut": changed(7, [[["id"], GOOD]]),
    "a step with a bad record": changed(7, [[[*["x"] * 12], [1]]]),
    "nested without end": b"\x91" * 5000,
    "a huge length": b"\xdd\xff\xff\xff\xff",
    "text that is no UTF-8": changed(1, "x").replace(b"\xa1x", b"\xa1\xff"),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_record_is_refused_as_such(data: bytes) -> None:
    claim = Claim("m", "t", "token", data)
    with pytest.raises(NotDecodable):
        claim.message()
    with pytest.raises(NotDecodable):
        unpack(data)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for read in (unpack, Claim("m", "t", "k", data).message, Claim("m", "t", "k", data).head):
        with suppress(NotDecodable):
            read(data) if read is unpack else read()  # type: ignore[call-arg]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.text(),
        lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(), inner, max_size=3),
    ),
    st.integers(0, 7),
)
def test_no_value_in_a_record_raises_anything_else(value: Any, index: int) -> None:
    claim = Claim("m", "t", "k", changed(index, value))
    for read in (claim.message, claim.head):
        with suppress(NotDecodable):
            read()
