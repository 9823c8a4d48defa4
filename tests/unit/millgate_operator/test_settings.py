"""The operator's settings from variables."""

from __future__ import annotations

import pytest

from millgate.errors import InvalidSettings
from millgate_operator.settings import OperatorSettings


def test_nothing_set_means_the_defaults() -> None:
    assert OperatorSettings.from_env({}) == OperatorSettings()


def test_every_kind_of_value_is_read() -> None:
    settings = OperatorSettings.from_env(
        {
            "MILLGATE_OPERATOR_NAMESPACES": "shop, mail",
            "MILLGATE_OPERATOR_WORKERS": "3",
            "MILLGATE_OPERATOR_RESYNC": "1h",
            "MILLGATE_OPERATOR_LEASE": "",
            "MILLGATE_OPERATOR_IDENTITY": "",
            "OTHER": "x",
        }
    )
    assert settings.namespaces == ("shop", "mail")
    assert (settings.workers, settings.resync, settings.lease) == (3, 3600.0, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WORKERS", "many"),
        ("WORKERS", "0"),
        ("RESYNC", "10"),
        ("TICK", "1ms"),
        ("ZERO_TICK", "0s"),
        ("LISTEN", "8081"),
        ("LOG_FORMAT", "xml"),
        ("LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_value_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=f"MILLGATE_OPERATOR_{name}"):
        OperatorSettings.from_env({f"MILLGATE_OPERATOR_{name}": value})
