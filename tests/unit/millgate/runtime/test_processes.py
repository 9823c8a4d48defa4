"""Process trees, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millgate.runtime.processes import (
    children_of,
    describe_status,
    kill,
    kill_tree,
    sweep,
    tree_of,
)
from millgate.runtime.rss import CLOSE, KEPT, Tree, data_of, pss_of, rss_of
from support.local import gone
from support.wait import eventually

FOREST = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(60)
        time.sleep(60)
print("grown", flush=True)
time.sleep(60)
"""
SWEEPER = """
import os, subprocess, sys, time
from millgate.runtime.processes import become_subreaper, children_of, sweep
become_subreaper()
keep = subprocess.Popen(["sleep", "60"])
subprocess.run([sys.executable, "-c", '''
import os, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "60"])
        os._exit(0)
    os.wait()
'''])
while len(children_of(os.getpid())) < 6: time.sleep(0.01)
killed = sweep({keep.pid})
print(killed, children_of(os.getpid()) == [keep.pid], keep.poll(), flush=True)
keep.kill(); keep.wait()
"""
#: Whoever has given up its rights cannot kill what was started with them.
POWERLESS = """
import os, subprocess
from millgate.runtime.processes import children_of, sweep
stranger, other = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL), os.fork()
if other == 0:
    os.close(1)
    os.setuid(65534)
    os.execvp("sleep", ["sleep", "60"])
while b"\\nUid:\\t65534" not in open(f"/proc/{other}/status", "rb").read(): pass
os.setuid(65534)
print(sweep(()), children_of(os.getpid()) == [stranger.pid], stranger.pid, flush=True)
"""
#: More processes than descriptors are kept for.
CROWD = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        time.sleep(60)
print("grown", flush=True)
time.sleep(60)
"""

#: A process that has one thread first, then a second one that forks.
LATER = """
import os, sys, threading, time
def grow():
    if os.fork() == 0:
        time.sleep(60)
    print("grown", flush=True)
    time.sleep(60)
print("alone", flush=True)
sys.stdin.readline()
threading.Thread(target=grow).start()
time.sleep(60)
"""


DISGUISED = """
import os, subprocess, sys
from millgate.runtime.processes import children_of, kill_tree, sweep
program = "import time; time.sleep(60)  # from multiprocessing.resource_tracker import main"
one = subprocess.Popen([sys.executable, "-c", program])
while b"resource_tracker" not in open(f"/proc/{one.pid}/cmdline", "rb").read(): pass
print(kill_tree(one.pid), sweep(()), children_of(os.getpid()), flush=True)
"""


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def forest() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", FOREST], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        eventually(lambda: len(tree_of(process.pid)) == 5)
        yield process.pid
        kill_tree(process.pid)


def test_a_tree_is_its_root_and_all_below(forest: int) -> None:
    tree = tree_of(forest)
    assert tree[0] == forest
    assert len(children_of(forest)) == 2
    assert not any(gone(pid) for pid in tree)


def test_children_of_every_thread_are_found() -> None:
    program = (
        "import threading, subprocess, time\n"
        "def go(): subprocess.Popen(['sleep', '60']); print('on', flush=True); time.sleep(60)\n"
        "threading.Thread(target=go).start()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(children_of(process.pid)) == 1
        kill_tree(process.pid)


def test_killing_a_tree_ends_all_of_it(forest: int) -> None:
    tree = tree_of(forest)
    assert kill_tree(forest) == 5
    eventually(lambda: all(gone(pid) for pid in tree))


def test_a_process_that_is_gone_has_nothing_and_hurts_nobody() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert not kill(process.pid)
    assert (children_of(process.pid), tree_of(process.pid)) == ([], [process.pid])
    assert (rss_of(process.pid), pss_of(process.pid), data_of(process.pid)) == (None, None, None)
    assert gone(process.pid)


def test_a_sweep_ends_strangers_and_leaves_what_is_ours() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWEEPER], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["5", "True", "None"]


def test_who_clears_up_is_given_a_moment_and_no_more() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DISGUISED], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "0 1 []\n"


def test_a_sweep_is_not_held_up_by_whom_it_cannot_kill() -> None:
    assert os.getuid() == 0, "to give up rights one must have some"
    done = subprocess.run(
        [sys.executable, "-c", POWERLESS],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=20,
    )
    killed, others_gone, stranger = done.stdout.split()
    os.kill(int(stranger), signal.SIGKILL)
    assert (killed, others_gone) == ("1", "True")


def test_a_large_tree_takes_few_descriptors_and_is_counted_whole() -> None:
    with subprocess.Popen([sys.executable, "-c", CROWD], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = open_files()
        tree = Tree(process.pid)
        tree.refresh()
        tree.refresh()
        taken = open_files() - before
        sizes = [rss_of(pid) or 0 for pid in tree_of(process.pid)]
        total, shared = tree.rss(), tree.share()
        kill_tree(process.pid)
        tree.close()
    assert open_files() <= before
    assert taken <= KEPT + 2 * CLOSE
    assert len(sizes) == 101
    assert total == pytest.approx(sum(sizes), rel=0.02)
    assert 0 < shared < total


def test_a_sweep_without_strangers_does_nothing() -> None:
    assert sweep(set(children_of(os.getpid()))) == 0


def test_memory_of_a_tree_is_counted_through_kept_descriptors(forest: int) -> None:
    tree = Tree(forest)
    tree.refresh()
    single = rss_of(forest)
    assert single is not None
    assert tree.rss() > 1.5 * single  # forks share pages, RSS counts them for each
    assert tree.size(above=1) < tree.rss()  # PSS counts them once
    assert tree.size(above=10**12) == tree.rss()
    for pid in tree_of(forest)[1:]:
        os.kill(pid, signal.SIGKILL)

    def size() -> int:
        tree.refresh()
        return tree.rss()

    # memory is given back a moment before the process counts as ended
    eventually(lambda: size() < 2 * single and tree.defunct > 0)
    tree.close()


def test_what_a_processs_threads_start_is_found_by_the_next_walk() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LATER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        tree = Tree(process.pid)
        tree.refresh()
        alone = tree.rss()
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert not tree.grew()  # only the main thread's own are looked at so often
        tree.refresh()
        both = tree.rss()
        kill_tree(process.pid)
        tree.close()
    assert both > 1.3 * alone


def test_a_trees_descriptors_are_closed_with_it(forest: int) -> None:
    before = open_files()
    tree = Tree(forest)
    tree.refresh()
    assert open_files() == before + 3 * 5
    tree.close()
    assert open_files() == before


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exit code 0"), (3 << 8, "exit code 3"), (9, "SIGKILL"), (40, "signal 40")],
)
def test_a_status_is_put_in_words(status: int, words: str) -> None:
    assert describe_status(status) == words
