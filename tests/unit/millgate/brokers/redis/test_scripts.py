"""Each verb's script has what it uses and no more, names no global, and uses no command that setup does not try."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from millgate.brokers.redis.scripts import NOUNS, compose, prelude, script

FOLDER = files("millgate.brokers.redis.scripts")
VERBS = sorted(
    path.name.removesuffix(".lua") for path in FOLDER.iterdir() if path.name.endswith(".lua")
)
_COMMAND = re.compile(r"\bcall\('([A-Z]+)'")

SMALL = """local call = redis.call
local LIMIT = 5 -- at most
local waiting = {}
local asleep, awake = {}, {}
if call('PING') then
  return 0
end
-- Says.
local function says(x)
  return x + LIMIT
end

--@seldom
local function rests(x)
  asleep[x] = true
  return says(x)
end

--@seldom
local function sleeps(x)
  return rests(x)
end

local function unused()
  return waiting
end
"""
LATER = "__index = function("


def test_a_verb_has_the_functions_that_it_uses_and_those_that_they_use() -> None:
    text = compose(SMALL, "return says(1)\n")
    assert "local function says(x)" in text
    assert "rests" not in text
    assert "unused" not in text


def test_a_verb_has_the_values_that_it_uses_and_all_statements() -> None:
    text = compose(SMALL, "return says(1)\n")
    assert "local LIMIT = 5\n" in text, "without its comment"
    assert "waiting" not in text
    assert "asleep" not in text
    assert text.startswith("local call = redis.call\n")
    assert "\nif call('PING') then\n  return 0\nend\nreturn (function()\n" in text
    assert "LIMIT" not in compose(SMALL, "return 1\n")


def test_what_is_seldom_used_is_made_when_it_is_called() -> None:
    text = compose(SMALL, "return sleeps(1)\n")
    outside, _, inside = text.partition(LATER)
    assert "return rare.sleeps(1)" in text
    assert "\nlocal says, rests, sleeps\n" in inside, "with what only such functions use"
    assert "local asleep, awake = {}, {}\n" in inside
    assert "rare.sleeps = sleeps\n" in inside
    assert "rare.rests" not in text, "only what is called from outside needs a way in"
    assert not {"says", "asleep", "LIMIT"} & set(re.findall(r"\w+", outside))


def test_what_is_used_often_as_well_stays_outside() -> None:
    text = compose(SMALL, "return says(1) + sleeps(1)\n")
    outside, _, inside = text.partition(LATER)
    assert "local function says(x)" in outside
    assert "local LIMIT = 5\n" in outside
    assert "\nlocal rests, sleeps\n" in inside
    assert "return says(1) + rare.sleeps(1)" in inside


def test_a_verb_may_say_itself_what_it_uses_often_and_what_seldom() -> None:
    text = compose(SMALL, "--@often sleeps rests\n--@seldom says\nreturn sleeps(1)\n")
    outside, _, inside = text.partition(LATER)
    assert "local function rests(x)" in outside
    assert "local function sleeps(x)" in outside
    assert "return rare.says(x)" in outside
    assert "\nlocal says\n" in inside
    assert "--@" not in text


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


def test_setup_tries_nothing_that_no_verb_uses() -> None:
    tried = set(re.findall(r"\{ '([A-Z]+)'", FOLDER.joinpath("probe.lua").read_text("utf-8")))
    paths = [*FOLDER.iterdir(), *FOLDER.joinpath("prelude").iterdir()]
    others = [path for path in paths if path.name.endswith(".lua") and path.name != "probe.lua"]
    assert tried <= {
        word for p in others for word in re.findall(r"'([A-Z]+)'", p.read_text("utf-8"))
    }


@pytest.mark.parametrize("verb", VERBS)
def test_no_script_looks_through_all_keys(verb: str) -> None:
    commands = set(_COMMAND.findall(script(verb).text.decode()))
    paged = {"HSCAN"} if verb == "peek" else set()  # some hundreds of what runs, a call
    assert not commands & (
        {"KEYS", "SCAN", "HSCAN", "SSCAN", "ZSCAN", "FLUSHALL", "FLUSHDB"} - paged
    )


@pytest.mark.parametrize(
    "verb",
    ["settle", "claim", "extend", "cancel", "purge", "progress", "unregister", "requeue", "stats"],
)
def test_what_must_pass_a_full_server_writes_a_deletion_first(verb: str) -> None:
    assert "\nfreeing()\n" in FOLDER.joinpath(f"{verb}.lua").read_text("utf-8")


@pytest.mark.parametrize("verb", ["publish", "send"])
def test_new_work_must_not_pass_a_full_server(verb: str) -> None:
    assert "freeing()" not in FOLDER.joinpath(f"{verb}.lua").read_text("utf-8")


@pytest.mark.parametrize("verb", VERBS)
def test_what_a_verb_says_of_the_prelude_names_what_is_there(verb: str) -> None:
    said = re.findall(r"^--@\w+ (.+)$", FOLDER.joinpath(f"{verb}.lua").read_text("utf-8"), re.M)
    names = {name for words in said for name in words.split()}
    assert names <= set(re.findall(r"^local function (\w+)", prelude(), re.M))
