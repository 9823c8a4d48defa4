"""Every verb meets every fault on every road: it ends in time, happens once, and the client goes on working."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millgate.brokers.base import Broker
from support.faults import Fault
from support.matrix.cell import VERBS


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
def test_a_verb_survives_a_fault(
    run_cell: Callable[..., None], road: str, verb: str, fault: Fault
) -> None:
    run_cell(road, verb, fault)


def test_no_verb_of_the_protocol_is_left_out() -> None:
    promised = {name for name, value in vars(Broker).items() if callable(value) and name[0] != "_"}
    assert {verb.partition(" ")[0] for verb in VERBS} == promised
