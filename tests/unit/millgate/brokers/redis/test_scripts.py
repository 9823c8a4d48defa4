"""Each verb's script has what it uses and no more, names no global, and uses no command that setup does not try."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from millgate.brokers.redis.scripts import NOUNS, compose, script

FOLDER = files("millgate.brokers.redis.scripts")
VERBS = sorted(
    path.name.removesuffix(".lua") for path in FOLDER.iterdir() if path.name.endswith(".lua")
)
_COMMAND = re.compile(r"\bcall\('([A-Z]+)'")

SMALL = """local call = redis.call
-- Says.
local function says(x)
  return x
end

--@seldom
local function rests(x)
  return says(x)
end

--@seldom
local function sleeps(x)
  return rests(x)
end

local function unused()
  return 1
end
"""


def test_a_verb_has_the_functions_that_it_uses_and_those_that_they_use() -> None:
    text = compose(SMALL, "return says(1)\n")
    assert "local function says(x)" in text
    assert "rests" not in text
    assert "unused" not in text


def test_what_is_seldom_used_is_made_when_it_is_called() -> None:
    text = compose(SMALL, "return sleeps(1)\n")
    assert "rarely = function()\nlocal rests, sleeps\n" in text
    assert "return rare.sleeps(...)" in text
    assert "return rare.rests(...)" not in text, "only those outside need a way in"
    assert text.index("local function says") < text.index("rarely = function()")


def test_no_file_of_the_prelude_is_left_out() -> None:
    found = {path.name for path in FOLDER.joinpath("prelude").iterdir()}
    assert found == {f"{noun}.lua" for noun in NOUNS}


def test_what_needs_little_is_small() -> None:
    assert "local function" not in script("schedules").text.decode()
    assert len(script("lock").text) < len(script("publish").text) / 8


def test_every_script_has_a_name_of_its_own() -> None:
    assert len({script(verb).sha for verb in VERBS}) == len(VERBS) > 25


@pytest.mark.parametrize("verb", VERBS)
def test_setup_tries_every_command_that_a_verb_uses(verb: str) -> None:
    tried = set(re.findall(r"\{ '([A-Z]+)'", FOLDER.joinpath("probe.lua").read_text("utf-8")))
    assert set(_COMMAND.findall(script(verb).text.decode())) <= tried


@pytest.mark.parametrize("verb", VERBS)
def test_no_script_looks_through_all_keys(verb: str) -> None:
    commands = set(_COMMAND.findall(script(verb).text.decode()))
    assert not commands & {"KEYS", "SCAN", "HSCAN", "SSCAN", "ZSCAN", "FLUSHALL", "FLUSHDB"}


@pytest.mark.parametrize(
    "verb",
    ["settle", "claim", "extend", "cancel", "purge", "progress", "unregister", "requeue", "stats"],
)
def test_what_must_pass_a_full_server_writes_a_deletion_first(verb: str) -> None:
    assert "\nfreeing()\n" in FOLDER.joinpath(f"{verb}.lua").read_text("utf-8")


def test_new_work_must_not_pass_a_full_server() -> None:
    assert "freeing()" not in FOLDER.joinpath("publish.lua").read_text("utf-8")
