"""cgroup trees as they were recorded on real machines, laid out in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from millgate.runtime.cgroup import Cgroup, find

V1_STAT = "cache 500\nrss 300\ninactive_file 7\ntotal_cache 500\ntotal_inactive_file 200\n"
V2_STAT = "anon 300\nfile 500\ninactive_file 200\nactive_file 100\n"


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="ascii")


def v1(folder: Path, limit: str = "1000\n") -> None:
    write(
        folder,
        memory__limit_in_bytes=limit,
        memory__usage_in_bytes="800\n",
        memory__stat=V1_STAT,
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    )


def v2(folder: Path, limit: str = "1000\n", group: str = "0\n") -> None:
    write(
        folder,
        memory__max=limit,
        memory__current="800\n",
        memory__stat=V2_STAT,
        memory__events="low 0\nhigh 0\nmax 12\noom 4\noom_kill 4\noom_group_kill 0\n",
        memory__oom__group=group,
    )


def found(tmp_path: Path, listing: str) -> Cgroup:
    (tmp_path / "self").write_text(listing, encoding="ascii")
    cgroup = find(tmp_path / "self", tmp_path / "fs")
    assert cgroup is not None
    return cgroup


def test_a_pod_on_v1_has_its_files_at_the_root_of_the_mount(tmp_path: Path) -> None:
    v1(tmp_path / "fs" / "memory")
    cgroup = found(tmp_path, "9:memory:/kubepods/burstable/pod1/abc\n0::/system.slice\n")
    assert (cgroup.version, cgroup.limit(), cgroup.usage()) == (1, 1000, 800)
    assert cgroup.inactive_file() == 200
    assert cgroup.oom_kills() == 3
    assert not cgroup.kills_all()


def test_a_pod_on_v2_has_its_files_at_the_root_of_the_mount(tmp_path: Path) -> None:
    v2(tmp_path / "fs", group="1\n")
    cgroup = found(tmp_path, "0::/\n")
    assert (cgroup.version, cgroup.limit(), cgroup.usage(), cgroup.oom_kills()) == (2, 1000, 800, 4)
    assert cgroup.kills_all()


def test_a_host_has_nested_ones_and_the_smallest_limit_holds(tmp_path: Path) -> None:
    v1(tmp_path / "fs" / "memory" / "a" / "b", limit="5000\n")
    v1(tmp_path / "fs" / "memory" / "a", limit="2000\n")
    v1(tmp_path / "fs" / "memory", limit="9223372036854771712\n")
    assert found(tmp_path, "4:memory:/a/b\n").limit() == 2000


def test_a_hybrid_machine_has_v2_under_unified(tmp_path: Path) -> None:
    v2(tmp_path / "fs" / "unified" / "me")
    assert found(tmp_path, "0::/me\n").version == 2


@pytest.mark.parametrize("text", ["max\n", "", "9223372036854771712\n"])
def test_no_limit_is_unknown_and_not_zero(tmp_path: Path, text: str) -> None:
    v2(tmp_path / "fs", limit=text)
    assert found(tmp_path, "0::/\n").limit() is None


def test_the_page_cache_is_told_apart_only_when_it_matters(tmp_path: Path) -> None:
    v2(tmp_path / "fs")
    cgroup = found(tmp_path, "0::/\n")
    assert cgroup.working_set(worry=900) == 800
    assert cgroup.working_set(worry=700) == 600


def test_files_that_vanish_are_unknown(tmp_path: Path) -> None:
    cgroup = Cgroup(tmp_path / "gone", 2)
    assert (cgroup.limit(), cgroup.usage(), cgroup.oom_kills()) == (None, None, None)
    assert cgroup.working_set(0) is None


def test_a_machine_without_cgroups_has_none(tmp_path: Path) -> None:
    assert find(tmp_path / "nothing", tmp_path) is None
    (tmp_path / "self").write_text("3:cpu:/\n", encoding="ascii")
    assert find(tmp_path / "self", tmp_path) is None
