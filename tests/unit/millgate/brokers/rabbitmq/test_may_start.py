"""Who may start a brokerd: the URL says it, and so does a variable, for those who are given a URL."""

from __future__ import annotations

import pytest

from millgate.brokers.rabbitmq.url import BROKERD, parse
from millgate.errors import InvalidSettings


@pytest.mark.parametrize(
    ("query", "variable", "may"),
    [
        ("", None, True),
        ("?brokerd=auto", None, True),
        ("?brokerd=never", None, False),
        ("", "never", False),
        ("", "auto", True),
        ("?brokerd=auto", "never", False),
        ("?brokerd=never", "auto", False),
    ],
)
def test_never_wins_wherever_it_is_said(query: str, variable: str | None, may: bool) -> None:
    environ = {} if variable is None else {BROKERD: variable}
    assert parse(f"amqp://host/{query}", environ).may_start is may


def test_another_word_is_refused_where_it_stands() -> None:
    with pytest.raises(InvalidSettings, match=r"\?brokerd=maybe: use auto or never"):
        parse("amqp://host/?brokerd=maybe", {})
    with pytest.raises(InvalidSettings, match="MILLGATE_BROKERD=maybe: use auto or never"):
        parse("amqp://host/", {BROKERD: "maybe"})
