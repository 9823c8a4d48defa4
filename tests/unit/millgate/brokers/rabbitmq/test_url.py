"""A URL that cannot be meant as it stands: refused with what to do, and without a part of its password."""

from __future__ import annotations

import pytest

from millgate.brokers.rabbitmq.url import parse
from millgate.errors import InvalidSettings


@pytest.mark.parametrize(
    "password",
    ["s3/cret", "s3?cret", "s3#cret", "s3[cret", "5672/cret", "s3\u2100cret", "/cret", "?cret"],
)
def test_a_password_that_is_not_quoted_is_refused_and_no_part_of_it_shown(password: str) -> None:
    with pytest.raises(InvalidSettings, match="%23") as caught:
        parse(f"amqp://user:{password}@host/vhost", {})
    assert "cret" not in str(caught.value)
    assert "s3" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_password_that_is_quoted_is_taken_as_it_is_meant() -> None:
    target = parse("amqp://us%40er:s3%2Fc%3Fr%23e%5Bt%40@host/v%40h?heartbeat=5", {})
    assert (target.user, target.password) == ("us@er", "s3/c?r#e[t@")
    assert (target.vhost, target.endpoint) == ("v@h", "amqp://host/v%40h")
