"""Runs cells that mostly wait beside the others, and shows the whole matrix at the end: rows verbs, columns faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from support.faults import Fault
from support.matrix.cell import VERBS, disturbed, undisturbed
from support.matrix.road import ROADS, Ground

_SLOW = (Fault.STALL, Fault.DROP)
_AT_ONCE = 6
_CELL = "cell"

Cell = tuple[str, str, Fault]


class Matrix:
    """Grounds, made when they are first needed, and the cells that are under way."""

    def __init__(self, folder: Path, cells: list[Cell]) -> None:
        self._folder = folder
        self._cells = cells
        self._grounds: dict[str, Ground] = {}
        self._running: dict[Cell, Future[None]] = {}
        self._threads = ThreadPoolExecutor(_AT_ONCE, "cell")
        self.requests = cache(self._requests)

    def run(self, cell: Cell) -> None:
        """Raise what is wrong with a cell. The slow ones of its road start with the first cell of the road."""
        road, verb, fault = cell
        ground = self.ground(road)
        if cell in self._running:
            self._running[cell].result()
        else:
            disturbed(ground, verb, fault, self.requests(road, verb))

    def ground(self, road: str) -> Ground:
        """The queue of a road."""
        if road not in self._grounds:
            folder = self._folder / road
            folder.mkdir()
            self._grounds[road] = Ground(ROADS[road], folder)
            for cell in self._cells:
                if cell[0] == road and cell[2] in _SLOW:
                    self._running[cell] = self._threads.submit(self._slow, cell)
        return self._grounds[road]

    def close(self) -> None:
        """End what is under way, then the queues."""
        self._threads.shutdown(cancel_futures=True)
        for ground in self._grounds.values():
            ground.close()

    def _slow(self, cell: Cell) -> None:
        road, verb, fault = cell
        disturbed(self._grounds[road], verb, fault, self.requests(road, verb))

    def _requests(self, road: str, verb: str) -> Sequence[int]:
        return undisturbed(self._grounds[road], verb)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "road" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--broker")
        names = [name for name, road in ROADS.items() if not chosen or road.broker in chosen]
        metafunc.parametrize("road", names, scope="session")


@pytest.fixture(scope="session")
def matrix(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Matrix]:
    """All cells of this session; with several processes each runs its own as they come."""
    cells: list[Cell] = []
    if not hasattr(request.config, "workerinput"):
        for item in request.session.items:
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            if "fault" in parameters and "road" in parameters:
                cells.append((parameters["road"], parameters["verb"], parameters["fault"]))
    made = Matrix(tmp_path_factory.mktemp("f"), cells)
    yield made
    made.close()


@pytest.fixture
def run_cell(matrix: Matrix, record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Runs one cell and notes it for the table."""

    def run(road: str, verb: str, fault: Fault) -> None:
        record_property(_CELL, [road, verb, fault.value])
        matrix.run((road, verb, fault))

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One block for each road."""
    words: dict[tuple[str, str, str], str] = {}
    for word, outcome in (("ok", "passed"), ("RED", "failed"), ("RED", "error")):
        for report in terminalreporter.stats.get(outcome, []):
            for name, cell in getattr(report, "user_properties", []):
                if name == _CELL:
                    words[(cell[0], cell[1], cell[2])] = word
    for road in ROADS:
        if any(cell[0] == road for cell in words):
            _block(terminalreporter, road, words)


def _block(
    terminal: pytest.TerminalReporter, road: str, words: dict[tuple[str, str, str], str]
) -> None:
    faults = [fault.value for fault in Fault]
    mine = [word for cell, word in words.items() if cell[0] == road]
    terminal.section(f"faults: {road}, {mine.count('ok')} ok, {mine.count('RED')} RED")
    terminal.write_line(f"{'':18}" + "".join(f"{_heading(fault):>9}" for fault in faults))
    for verb in VERBS:
        row = [words.get((road, verb, fault), "") for fault in faults]
        if any(row):
            terminal.write(f"{verb:18}")
            for word in row:
                terminal.write(
                    f"{word:>9}", green=word == "ok", red=word == "RED", bold=word == "RED"
                )
            terminal.write_line("")


def _heading(fault: str) -> str:
    return {
        Fault.CUT_BEFORE: "before",
        Fault.CUT_BETWEEN: "between",
        Fault.CUT_AFTER: "after",
        Fault.RESET: "reset",
        Fault.STALL: "stall",
        Fault.DROP: "drop",
    }[Fault(fault)]
