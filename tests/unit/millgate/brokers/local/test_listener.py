"""An address is taken from nobody who is alive, and whoever comes too soon is told so."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from millgate.brokers.local.address import Place
from millgate.brokers.local.listener import Listener
from millgate.clock import SystemClock
from millgate.errors import BrokerRefused, BrokerUnavailable


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(path=tmp_path / "b.sock")


def take(place: Place) -> Listener:
    return Listener(place, SystemClock(), 0.05)


def test_an_address_that_somebody_serves_is_refused(place: Place) -> None:
    with take(place), pytest.raises(BrokerRefused, match="listens at"):
        take(place)
    with take(place):  # it was given back
        pass


def test_one_whose_broker_has_yet_to_end_is_free_soon(place: Place) -> None:
    with take(place) as ending:
        ending.socket.close()
        with pytest.raises(BrokerUnavailable, match="has yet to end"):
            take(place)
    with take(place):
        pass


def test_a_broker_whose_socket_was_removed_is_not_waited_for(place: Place) -> None:
    assert place.path is not None
    with take(place):
        place.path.unlink()
        with pytest.raises(BrokerRefused, match="somebody removed its socket"):
            take(place)


def test_the_socket_of_a_stranger_is_left_alone(place: Place) -> None:
    assert place.path is not None
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(place.path))
        stranger.listen()
        with pytest.raises(BrokerRefused, match="something else listens"):
            take(place)
    with take(place):  # a dead one's
        pass
