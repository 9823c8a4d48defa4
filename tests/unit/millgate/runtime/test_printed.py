"""What a child prints goes out by lines, and is noticed."""

from __future__ import annotations

import subprocess
import sys


def _said(program: str) -> str:
    words = f"from millgate.runtime import printed; printed.install(); import os, sys\n{program}"
    run = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    return run.stdout


def test_a_line_goes_out_at_once_and_a_part_of_one_when_it_is_taken() -> None:
    program = "print('one'); print('two', end=''); os.write(1, b'|'); printed.take()"
    assert _said(program) == "one\n|two"


def test_it_is_known_whether_something_was_printed_since_the_last_time() -> None:
    program = """
seen = [printed.take()]
print('x', end=''); seen.append(printed.take()); seen.append(printed.take())
print('y', file=sys.stderr); seen.append(printed.take())
sys.__stdout__.write('z'); seen.append(printed.take())
print(seen)"""
    assert _said(program).endswith("[False, True, False, True, True]\n")


RUNS = """
from millgate import context
from millgate.message import Message
class Around:
    def __init__(self, seq): self.seq = seq
def run(seq, words, end='\\n'):
    token = context.enter(context.Context(Around(seq), Message('a', 't', 'w', b'')))
    print(words, end=end)
    context.leave(token)
    printed.take(seq)
"""


def test_it_is_said_whose_the_output_is() -> None:
    program = f"{RUNS}printed.begin(); run(1, 'one'); run(2, 'two'); run(2, 'again', end=''); os.write(1, b'|')"
    marked = "".join(
        f"<{number}>{text}<0>" for number, text in ((1, "one\n"), (2, "two\n"), (2, "again"))
    )
    assert _said(program).replace("\x1emillgate:", "<").replace("\x1e", ">") == f"{marked}|"


def test_what_a_task_has_pointed_elsewhere_has_no_marks_in_it() -> None:
    program = f"""{RUNS}
printed.begin(); kept = os.dup(1); reader, writer = os.pipe(); os.dup2(writer, 1)
run(7, 'aside')
os.write(kept, os.read(reader, 100))"""
    assert _said(program).split("\x1e")[-1] == "aside\n"


def test_what_a_task_forks_says_nothing_of_its_own() -> None:
    program = f"""{RUNS}
printed.begin()
if os.fork() == 0:
    run(8, 'forked')
    os._exit(0)
os.wait()"""
    assert _said(program) == "forked\n"


def test_a_stream_of_a_task_that_cannot_be_flushed_is_nobodys_trouble() -> None:
    program = """
class Odd:
    def flush(self): raise RuntimeError('reentrant')
keep = os.dup(1); sys.stdout = Odd(); os.write(keep, str(printed.take()).encode())
sys.stdout = sys.__stdout__"""
    assert _said(program) == "False"


def test_streams_that_a_task_closed_or_replaced_are_nobodys_trouble() -> None:
    program = "keep = os.dup(1); sys.stdout.close(); sys.stderr = None; os.write(keep, str(printed.take()).encode())"
    assert _said(program) == "False"
