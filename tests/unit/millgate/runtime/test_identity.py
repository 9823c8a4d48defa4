"""Ceilings in bytes, from settings and the container's limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from millgate.errors import InvalidSettings
from millgate.limits import Ceiling
from millgate.runtime.cgroup import Cgroup
from millgate.runtime.identity import ceilings_of, doubts, info_of
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


def test_a_ceiling_that_is_a_share_of_no_limit_is_named(cgroup: Cgroup) -> None:
    settings = WorkerSettings(
        max_rss=Ceiling.parse("50%"), hard_max_rss=Ceiling.parse("1Gi"), memory=Ceiling.parse("80%")
    )
    told = doubts(settings, ceilings_of(settings, None)[0], None)
    assert [words["flag"] for _, words in told] == ["--max-rss", "--memory"]
    assert doubts(settings, ceilings_of(settings, cgroup)[0], cgroup) == []


def test_a_container_that_is_killed_as_a_whole_is_told(cgroup: Cgroup, tmp_path: Path) -> None:
    (tmp_path / "memory.oom.group").write_text("1\n", encoding="ascii")
    [(event, _)] = doubts(WorkerSettings(), Ceilings(), cgroup)
    assert event == "an OOM kill ends the whole container here"


@pytest.mark.parametrize(("soft", "hard"), [("70%", "600Mi"), ("600Mi", "60%")])
def test_a_share_and_an_amount_are_compared_once_the_limit_is_known(
    cgroup: Cgroup, soft: str, hard: str
) -> None:
    settings = WorkerSettings(max_rss=Ceiling.parse(soft), hard_max_rss=Ceiling.parse(hard))
    with pytest.raises(
        InvalidSettings, match=f"--max-rss: {soft} is .* below --hard-max-rss, 600Mi"
    ):
        ceilings_of(settings, cgroup)
    assert ceilings_of(settings, None)[0].pod is None


def test_the_registry_is_told_slots_and_topics_in_words() -> None:
    info = info_of(WorkerSettings(children=3, slots=4, topics=("a", "b*"), exclude=("b1",)))
    assert (info.slots, info.topics) == (12, "a,b* without b1")
    assert info_of(WorkerSettings()).topics == "*"
