"""A `local://` URL read into an address."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millgate.brokers.local.address import Place, parse, probe_timeout
from millgate.brokers.served.folders import private_folder
from millgate.errors import BrokerRefused, InvalidSettings

ENVIRON = {"XDG_RUNTIME_DIR": "/run/user/7", "XDG_STATE_HOME": "/state"}


def test_the_bare_url_is_the_users_own_broker_on_this_host() -> None:
    address = parse("local://", ENVIRON)
    assert address.place.path == Path("/run/user/7/millgate/brokerd.sock")
    assert address.key_file == Path("/run/user/7/millgate/key")
    assert address.private_key
    assert address.journal
    assert address.data.is_relative_to("/state/millgate")
    assert address.data.name == "default"
    assert os.uname().nodename in str(address.data)


def test_without_a_runtime_folder_or_a_home_everything_is_in_a_folder_of_the_users_own() -> None:
    address = parse("local://", {})
    assert address.place.path is not None
    assert address.place.path.parent.name == f"millgate-{os.geteuid()}"
    assert address.data == address.place.path.with_name("default")


def test_a_path_keeps_its_data_beside_it() -> None:
    address = parse("local:///srv/q.sock", ENVIRON)
    assert address.place.path == Path("/srv/q.sock")
    assert address.data == Path("/srv/q.sock.data")


def test_a_host_and_a_port_and_every_option() -> None:
    url = "local://broker.ns.svc:7000?key_file=/k&journal=off&data=/d&die_with_parent=on&ca=/ca.pem"
    address = parse(url, ENVIRON)
    assert (address.place.host, address.place.port) == ("broker.ns.svc", 7000)
    assert (address.key_file, address.data, address.ca) == (Path("/k"), Path("/d"), Path("/ca.pem"))
    assert not address.private_key
    assert not address.journal
    assert address.die_with_parent
    assert address.tls
    assert address.verify


def test_verification_is_given_up_by_name_only() -> None:
    assert parse("local://h:1?tls=on", ENVIRON).verify
    assert not parse("local://h:1?tls=on#insecure", ENVIRON).verify


def test_the_key_may_come_from_the_environment_and_the_url_wins() -> None:
    environ = {**ENVIRON, "MILLGATE_LOCAL_KEY_FILE": "/from/env"}
    assert parse("local://h", environ).key_file == Path("/from/env")
    assert parse("local://h?key_file=/from/url", environ).key_file == Path("/from/url")


def test_a_port_that_is_left_out_is_the_usual_one() -> None:
    assert parse("local://[::1]", ENVIRON).place == Place(host="::1", port=7411)
    assert str(Place(host="::1", port=7411)) == "[::1]:7411"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("local://h:port", "port"),
        ("local://h:99999", "range"),
        ("local://user:secret@h:1", "host:port"),
        ("local://h:1/path", "not both"),
        ("local://h?jurnal=off", "jurnal"),
        ("local://h?journal=no", "'on' or 'off'"),
        ("local://h#unsafe", "#unsafe"),
        ("local:///" + "x" * 107, "at most 107 bytes"),
    ],
)
def test_a_url_that_means_nothing_is_refused_saying_what_to_write(url: str, complaint: str) -> None:
    with pytest.raises(InvalidSettings, match=complaint) as refusal:
        parse(url, ENVIRON)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.3.4.5", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("127.evil.example", False),
    ],
)
def test_only_this_machines_addresses_are_here(host: str, here: bool) -> None:
    assert Place(host=host, port=1).here is here


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 5.0), ("2", 2.0), ("1.5", 1.5), ("250ms", 0.25), ("1m", 60.0)]
)
def test_the_probes_timeout_is_seconds_or_a_duration(text: str, seconds: float) -> None:
    assert probe_timeout({"MILLGATE_PROBE_TIMEOUT": text}) == seconds


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan"])
def test_a_timeout_that_cannot_be_names_its_variable(text: str) -> None:
    with pytest.raises(InvalidSettings, match="MILLGATE_PROBE_TIMEOUT"):
        probe_timeout({"MILLGATE_PROBE_TIMEOUT": text})


def test_a_folder_for_keys_is_this_users_alone(tmp_path: Path) -> None:
    private_folder(tmp_path / "new" / "one")
    assert (tmp_path / "new" / "one").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "new")
    for bad in ("open", "link"):
        with pytest.raises(BrokerRefused, match="not a folder of this user's own"):
            private_folder(tmp_path / bad)
