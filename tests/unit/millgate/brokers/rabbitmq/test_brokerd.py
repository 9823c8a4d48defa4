"""A brokerd without a server: how long it goes on."""

from __future__ import annotations

from millgate.brokers.rabbitmq.brokerd import Server
from millgate.brokers.rabbitmq.role import Brokerd, Standing
from millgate.brokers.rabbitmq.url import parse
from support.clock import FakeClock
from support.programs import free_port


def test_one_that_nobody_called_for_long_ends_although_its_server_is_gone() -> None:
    clock = FakeClock()
    told: list[Standing] = []
    target = parse(f"amqp://guest:guest@127.0.0.1:{free_port()}/", {})
    began = clock.monotonic()
    Server(Brokerd(target, "q", idle=5.0), clock, told.append).run()
    assert set(told) == {Standing.AWAY}
    assert 5.0 <= clock.monotonic() - began < 7.0
