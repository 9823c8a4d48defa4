"""The key and the proof that both sides know it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millgate.brokers.local import handshake, key
from millgate.brokers.served import answers
from millgate.brokers.served.caller import Caller
from millgate.errors import AuthFailed, BrokerRefused, ForeignPeer, VersionUnsupported

SECRET = b"s" * 32


def test_of_many_that_create_it_at_once_all_read_the_same_whole_key(tmp_path: Path) -> None:
    path = tmp_path / "key"

    def make(_: int) -> bytes:
        key.create(path)
        return key.read(path, private=True)

    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(make, range(32)))
    assert len(keys) == 1
    assert len(keys.pop()) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(SECRET)
    key.create(path)
    assert path.read_bytes() == SECRET


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BrokerRefused, match="cannot write a key"):
        key.create(tmp_path / "none" / "key")


def test_a_short_or_missing_or_open_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(AuthFailed, match="no key of a local broker"):
        key.read(path, private=False)
    path.write_bytes(b"short\n")
    with pytest.raises(AuthFailed, match="fewer than 16 bytes"):
        key.read(path, private=False)
    path.write_bytes(SECRET)
    path.chmod(0o644)
    assert key.read(path, private=False) == SECRET
    with pytest.raises(AuthFailed, match="open to others"):
        key.read(path, private=True)


def test_both_sides_come_to_trust_each_other() -> None:
    mine, theirs = key.challenge(), key.challenge()
    second, heard = handshake.challenge(handshake.hello(mine), SECRET, theirs)
    assert heard == mine
    third = handshake.answer(second, SECRET, mine, Caller("client", "queue"))
    assert handshake.caller(third, SECRET, theirs, mine) == Caller("client", "queue")
    assert handshake.welcomed(handshake.welcome({"pid": 7})) == {"pid": 7}
    assert SECRET not in second + third


def test_neither_side_believes_another_key() -> None:
    mine, theirs = key.challenge(), key.challenge()
    second, _ = handshake.challenge(handshake.hello(mine), b"o" * 32, theirs)
    with pytest.raises(AuthFailed, match="another key"):
        handshake.answer(second, SECRET, mine, Caller("client", "queue"))
    second, _ = handshake.challenge(handshake.hello(mine), SECRET, theirs)
    third = handshake.answer(second, SECRET, mine, Caller("client", "queue"))
    with pytest.raises(AuthFailed):
        handshake.caller(third, b"o" * 32, theirs, mine)


def test_a_proof_can_be_neither_reflected_nor_used_again() -> None:
    mine, theirs = key.challenge(), key.challenge()
    servers = key.proof(SECRET, key.SERVER, theirs, mine)
    assert key.proves(SECRET, key.SERVER, theirs, mine, servers)
    assert not key.proves(SECRET, key.CLIENT, theirs, mine, servers)
    assert not key.proves(SECRET, key.CLIENT, mine, theirs, servers)
    assert not key.proves(SECRET, key.SERVER, key.challenge(), mine, servers)
    assert not key.proves(SECRET, key.SERVER, theirs, mine, None)


def test_what_is_no_handshake_is_a_stranger() -> None:
    own = key.challenge()
    for data in (b"", b"HTTP/1.1 400", b"\x90", b"\x93\x01\x02\x03", b"\xc1", b"\x01"):
        with pytest.raises(ForeignPeer):
            handshake.challenge(data, SECRET, own)
        with pytest.raises(ForeignPeer):
            handshake.answer(data, SECRET, own, Caller("c", "q"))
        with pytest.raises(ForeignPeer):
            handshake.caller(data, SECRET, own, own)
        with pytest.raises(ForeignPeer):
            handshake.welcomed(data)


def test_another_version_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "PROTOCOL", 2)
    newer = handshake.hello(key.challenge())
    monkeypatch.undo()
    with pytest.raises(VersionUnsupported, match="version 2"):
        handshake.challenge(newer, SECRET, key.challenge())


def test_a_refusal_is_raised_as_the_error_that_it_names() -> None:
    refused = handshake.refusal(BrokerRefused("full"))
    with pytest.raises(BrokerRefused, match="full"):
        handshake.welcomed(refused)
    assert type(answers.error("os.system", "x")).__name__ == "BrokerError"
    assert type(answers.error("Final", "x")).__name__ == "BrokerError"
