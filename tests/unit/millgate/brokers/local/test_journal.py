"""The journal: what was appended is read back, whatever the moment of the kill."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millgate.brokers.local import snapshot
from millgate.brokers.local.journal import Journal
from millgate.clock import SystemClock
from millgate.errors import BrokerRefused, BrokerUnavailable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def journal(folder: Path) -> Iterator[Journal]:
    made = begun(folder)
    yield made
    made.close()


def begun(folder: Path, smallest: int = 1000) -> Journal:
    journal = Journal(folder, SystemClock(), smallest=smallest)
    assert journal.snapshot() is None
    assert list(journal.records()) == []
    return journal


def again(folder: Path) -> tuple[bytes | None, list[bytes]]:
    """What the next life of the broker finds."""
    journal = Journal(folder, SystemClock())
    try:
        return journal.snapshot(), list(journal.records())
    finally:
        journal.close()


def test_records_come_back_in_order_over_several_lives(folder: Path) -> None:
    for life in range(3):
        journal = Journal(folder, SystemClock())
        assert list(journal.records()) == [b"%d-%d" % (n, m) for n in range(life) for m in range(4)]
        journal.append([b"%d-0" % life, b"%d-1" % life])
        journal.append([b"%d-2" % life, b"%d-3" % life])
        journal.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 200), junk=st.binary(max_size=60))
def test_however_the_tail_is_torn_a_prefix_comes_back(
    tmp_path: Path, cut: int, junk: bytes
) -> None:
    folder = tmp_path / "torn"
    shutil.rmtree(folder, ignore_errors=True)
    journal = begun(folder)
    records = [b"record %d " % n + b"x" * n for n in range(8)]
    for record in records:
        journal.append([record])
    path = folder / f"journal-{journal.number:010}"
    journal.close()
    content = path.read_bytes()
    path.write_bytes(content[: max(16, len(content) - cut)] + junk)
    _, found = again(folder)
    assert found == records[: len(found)]
    if cut == 0:
        assert found == records
    assert again(folder) == (None, found)  # the tail is gone for good


def test_a_file_that_grew_without_its_data_ends_where_that_is_missing(folder: Path) -> None:
    """The power goes when the size is on the disk and the first record is not."""
    journal = begun(folder)
    path = folder / f"journal-{journal.number:010}"
    journal.close()
    with path.open("ab") as file:
        file.write(b"\0" * 64)
    assert again(folder) == (None, [])
    assert path.stat().st_size == 16


def test_what_is_left_of_a_failed_write_is_never_read(
    journal: Journal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append([b"first"])

    def fails(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        patch.setattr(os, "ftruncate", fails)  # not even that
        with pytest.raises(BrokerUnavailable, match="free space there"):
            journal.append([b"lost1", b"lost2"])
    journal.append([b"next1"])  # as long as the first that was lost: the second lies right behind
    journal.close()
    assert again(folder) == (None, [b"first", b"next1"])


def test_a_snapshot_replaces_all_before_it(journal: Journal, folder: Path) -> None:
    journal.append([b"old" * 500])
    assert journal.due
    path = journal.rotate()
    assert path is not None
    assert not journal.due
    journal.append([b"since"])
    snapshot.write(path, b"state")
    journal.written(5)
    journal.close()
    assert again(folder) == (b"state", [b"since"])
    assert len(list(folder.glob("journal-*"))) == 2


def test_without_the_snapshot_that_was_begun_the_older_files_are_enough(
    journal: Journal, folder: Path
) -> None:
    journal.append([b"one" * 500])
    first = journal.rotate()
    journal.append([b"two" * 500])
    assert journal.rotate() is not None
    journal.append([b"three"])
    journal.close()
    assert first is not None
    first.with_name(first.name + ".draft").write_bytes(b"half a snapsh")
    assert again(folder) == (None, [b"one" * 500, b"two" * 500, b"three"])


def test_a_rotation_for_which_there_is_no_room_leaves_the_old_one(
    journal: Journal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append([b"one" * 500])

    def fails(_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(snapshot, "sync_folder", fails)
    assert journal.rotate() is None
    assert not journal.due  # not at once again
    journal.append([b"two"])
    journal.close()
    monkeypatch.undo()
    assert again(folder) == (None, [b"one" * 500, b"two"])


def test_a_journal_that_is_not_the_last_must_be_whole(journal: Journal, folder: Path) -> None:
    journal.append([b"one", b"two"])
    path = folder / f"journal-{journal.number:010}"
    journal.rotate()
    journal.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(BrokerRefused, match="damaged at byte"):
        again(folder)


def test_a_folder_has_one_broker_at_a_time(journal: Journal, folder: Path) -> None:
    with pytest.raises(BrokerRefused, match="another broker works in"):
        Journal(folder, SystemClock())


def test_files_of_others_are_refused_or_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "journal-0000000001").write_bytes(b"not a journal at all, but long enough")
    with pytest.raises(BrokerRefused, match="not written by a broker"):
        again(folder)
    (folder / "journal-0000000001").write_bytes(b"\0" * 16)  # made, and then the power went
    assert again(folder) == (None, [])
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_journal_that_was_only_just_made_is_whole_from_the_next_start_on(folder: Path) -> None:
    begun(folder).close()
    (folder / "journal-0000000002").touch()
    for _ in range(3):  # others follow it then
        assert again(folder) == (None, [])


def test_what_a_killed_broker_did_not_sync_is_on_the_disk_before_another_journal_follows(
    journal: Journal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append([b"one"], on_disk=False)
    journal.close()
    old, synced = folder / f"journal-{journal.number:010}", list[int]()
    fsync = os.fsync

    def spy(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", spy)
    assert again(folder) == (None, [b"one"])
    new = folder / f"journal-{journal.number + 1:010}"
    assert synced.index(old.stat().st_ino) < synced.index(new.stat().st_ino)


def test_drafts_of_snapshots_whose_writers_were_killed_take_no_room(
    journal: Journal, folder: Path
) -> None:
    first, second = (folder / f"snapshot-000000000{number}.draft" for number in (2, 3))
    first.write_bytes(b"half a snapsh")
    journal.rotate()
    assert first.stat().st_size == 0
    second.write_bytes(b"half a snapsh")
    journal.close()
    again(folder)
    assert second.stat().st_size == 0


def read_again(folder: Path) -> Journal:
    journal = Journal(folder, SystemClock(), smallest=1000)
    journal.snapshot()
    assert list(journal.records())
    return journal


def test_what_was_read_at_the_start_counts_for_the_next_snapshot(
    journal: Journal, folder: Path
) -> None:
    journal.append([b"few"])
    journal.close()
    for _ in range(2):  # several starts
        journal = read_again(folder)
        assert not journal.due  # for a few bytes
        journal.append([b"x" * 600])
        journal.close()
    journal = read_again(folder)
    assert journal.due
    journal.close()


def test_a_snapshot_that_ended_the_process_is_not_begun_again_by_the_next_one_at_once(
    journal: Journal, folder: Path
) -> None:
    journal.append([b"x" * 5000])
    assert journal.due
    journal.rotate()
    journal.close()  # there was no memory for it
    for _ in range(3):
        journal = read_again(folder)
        assert not journal.due
        journal.close()
    journal = read_again(folder)
    journal.append([b"x" * 1001])
    assert journal.due
    path = journal.rotate()
    assert path is not None
    snapshot.write(path, b"state")
    journal.written(5)
    journal.append([b"x" * 5000])
    journal.close()
    journal = read_again(folder)
    assert journal.due
    journal.close()


def test_what_is_left_of_a_failed_write_is_cut_off_before_another_journal_follows(
    journal: Journal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append([b"first"])

    def fails(*_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        patch.setattr(os, "ftruncate", fails)
        with pytest.raises(BrokerUnavailable):
            journal.append([b"lost"])
    assert journal.rotate() is not None
    journal.append([b"next"])
    journal.close()
    assert again(folder) == (None, [b"first", b"next"])


def test_a_snapshot_is_whole_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "snapshot-0000000001"
    snapshot.write(path, b"state" * 100)
    content = path.read_bytes()
    assert snapshot.read(path) == b"state" * 100
    for damaged in (content[:10], content[:-1], content[:-1] + b"!", content + b"!"):
        path.write_bytes(damaged)
        with pytest.raises(BrokerRefused):
            snapshot.read(path)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files that are brought on the disk from now on."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    return synced


def test_what_need_not_be_on_the_disk_at_once_is_brought_there_by_the_next_sync(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = counted(monkeypatch)
    journal.append([b"one"], on_disk=False)
    assert (synced, journal.unsynced) == ([], True)
    journal.sync()
    journal.sync()
    assert (len(synced), journal.unsynced) == (1, False)
    journal.append([b"two"], on_disk=False)
    journal.append([b"three"])  # takes along what came before it
    assert (len(synced), journal.unsynced) == (2, False)


def test_nothing_is_left_behind_in_a_journal_that_is_followed_by_another(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = counted(monkeypatch)
    journal.append([b"one"], on_disk=False)
    journal.rotate()
    assert (len(synced), journal.unsynced) == (1, False)
    journal.append([b"two"], on_disk=False)
    journal.close()
    assert len(synced) == 2


def test_a_disk_that_refuses_a_sync_is_told_of_and_asked_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal.append([b"one"], on_disk=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        journal.sync()
        assert journal.unsynced
        with pytest.raises(BrokerUnavailable):
            journal.append([b"two"])
    assert "cannot store anything" in caplog.text
    journal.append([b"three"])
    assert not journal.unsynced


def test_what_a_disk_refused_once_is_written_anew(
    journal: Journal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that fails leaves what was to be stored as if it had been: the next one says that all is well."""
    journal.append([b"kept"])
    stored = (folder / f"journal-{journal.number:010}").stat().st_size

    def forget(handle: int) -> None:
        os.pwrite(handle, b"\0" * (os.fstat(handle).st_size - stored), stored)
        raise OSError(errno.EIO, "Input/output error")

    journal.append([b"one" * 100], on_disk=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", forget)
        journal.sync()
        with pytest.raises(BrokerUnavailable):
            journal.append([b"lost"])
        with pytest.raises(BrokerUnavailable):  # or what is unsynced would grow
            journal.append([b"lost too"], on_disk=False)
    journal.append([b"two"])
    journal.close()
    assert again(folder) == (None, [b"kept", b"one" * 100, b"two"])
