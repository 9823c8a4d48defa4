"""Ceilings in bytes, from settings and the container's limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from millgate.limits import Ceiling
from millgate.runtime.cgroup import Cgroup
from millgate.runtime.identity import ceilings_of, info_of
from millgate.runtime.recycle import Ceilings
from millgate.settings import WorkerSettings

M = 2**20


@pytest.fixture
def cgroup(tmp_path: Path) -> Cgroup:
    (tmp_path / "memory.max").write_text(f"{1000 * M}\n", encoding="ascii")
    return Cgroup(tmp_path, 2)


def test_shares_are_of_the_containers_limit(cgroup: Cgroup) -> None:
    settings = WorkerSettings(max_rss=Ceiling.parse("40%"), hard_max_rss=Ceiling.parse("600Mi"))
    assert ceilings_of(settings, cgroup) == (Ceilings(400 * M, 600 * M, 1000 * M), cgroup)


def test_with_an_explicit_limit_our_own_processes_are_counted(cgroup: Cgroup) -> None:
    settings = WorkerSettings(memory=Ceiling.parse("500Mi"), max_rss=Ceiling.parse("50%"))
    assert ceilings_of(settings, cgroup) == (Ceilings(250 * M, None, 500 * M), None)


def test_without_a_limit_there_is_no_budget_and_no_share_of_it() -> None:
    settings = WorkerSettings(max_rss=Ceiling.parse("50%"))
    assert ceilings_of(settings, None) == (Ceilings(None, None, None), None)


def test_the_registry_is_told_slots_and_topics_in_words() -> None:
    info = info_of(WorkerSettings(children=3, slots=4, topics=("a", "b*"), exclude=("b1",)))
    assert (info.slots, info.topics) == (12, "a,b* without b1")
    assert info_of(WorkerSettings()).topics == "*"
