"""A process forks, and both go on with what they had: neither is taken for the other."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from millgate.brokers.base import Broker, State
from support.brokers import FACTORIES
from support.builders import a_message


def sent(broker: Broker, who: str) -> bool:
    """Send five; whether each was accepted as itself."""
    for number in range(5):
        message = a_message(id=f"{who}-{number}")
        [receipt] = broker.publish([message])
        if receipt.id != message.id or receipt.duplicate:
            return False
    return True


@pytest.mark.parametrize("name", ["local", "postgres", "rabbitmq", "redis"])
@pytest.mark.parametrize("fork", [os.fork, ctypes.PyDLL(None).fork], ids=["fork", "untold"])
def test_a_forked_process_and_its_parent_send_each_their_own(
    name: str, fork: Callable[[], int], tmp_path: Path
) -> None:
    with closing(FACTORIES[name](tmp_path)) as venue:
        broker = venue.client()
        broker.publish([a_message(id="before")])
        pid = fork()
        if not pid:
            code = 2
            try:
                signal.alarm(60)
                code = 0 if sent(broker, "child") else 1
            finally:
                os._exit(code)
        own = sent(broker, "parent")
        _, status = os.waitpid(pid, 0)
        assert (own, status) == (True, 0)
        names = [f"{who}-{number}" for who in ("child", "parent") for number in range(5)]
        assert {known.state for known in broker.states(["before", *names])} == {State.WAITING}
