"""The Lua files and their callers agree: names, counts, what a part may do, and the budget of lines."""

from __future__ import annotations

import inspect
import itertools
import re
from pathlib import Path
from typing import Any

import sequencer.calls as calls
from sequencer.calls.alerts import AlertTimes, Condition, Grant, PendingNewsGroup
from sequencer.calls.call import Call
from sequencer.calls.examine import repair
from sequencer.calls.register import sync_shard
from sequencer.calls.settle import Ack, Nack, SaveStep, save_step
from sequencer.calls.source import commands_in, script_source
from sequencer.doctor.rights import _SCRIPTS, needed
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.keys import registry_key, shard_keys
from sequencer.store.ledger import Written
from sequencer.store.registration import Registration, plain_tags
from sequencer.testing.wire import at_time

KEYS, REGISTRY = shard_keys("n", "q", 0), registry_key("n", "q")
ONE = Registration(1, 0, plain_tags(1), Policy().stored())
LUA = Path(inspect.getfile(calls)).parents[1] / "lua"
NAMES = sorted(path.stem for path in LUA.glob("*.lua"))
PARTS = sorted(str(path.relative_to(LUA).with_suffix("")) for path in LUA.glob("parts/**/*.lua"))
SCRIPT_LINES, PART_LINES, ASSEMBLED_LINES, WIDTH = 130, 80, 850, 100

EXAMPLES: dict[str, Call[Any]] = {
    "append": calls.append(KEYS, [Item("g", "i", "1.0", b"[1]")]),
    "claim": calls.claim(KEYS, "q", "me", 1.5, ClaimLimits(1, 2, 3)),
    "ack": calls.ack(KEYS, [Ack("g", "0" * 16, ["m"], True, endings=["f"])]),
    "nack": calls.nack(KEYS, Nack("g", "0" * 16, "m", 1, None, b"{}", "drop", ended="d")),
    "save_step": save_step(KEYS, SaveStep("g", "0" * 16, "m", "", Written(b"{}", 1, False), True)),
    "renew": calls.renew(KEYS, [("g", "0" * 16)], 1.5),
    "resume": calls.resume(KEYS, "g", b"", "", ending="drop"),
    "outage": calls.outage(KEYS, "close", "0" * 16),
    "wake": calls.wake(KEYS, "g"),
    "skip_gap": calls.skip_gap(KEYS, "g", "m", "", "#1"),
    "update": calls.update(KEYS, "g", "i", "due", "+5"),
    "pause": calls.pause(KEYS, "g", True),
    "redrive": calls.redrive(KEYS, ["l"]),
    "rerun": calls.rerun(KEYS, "g", "i", "0" * 16, ("i", 2), b"[1]", Written(b"{}", 1, False)),
    "purge": calls.purge(KEYS, ["l"]),
    "inspect": calls.inspect(KEYS, "g"),
    "find": calls.find(KEYS, "i"),
    "sweep": calls.sweep(KEYS),
    "alert": calls.alert(
        KEYS,
        [Condition("parked", "open", "1", "1", "")],
        ["ops"],
        AlertTimes(1.0),
    ),
    "alert_sent": calls.alert_sent(KEYS, Grant("parked", "open", "ops", 1, 0, "1", "1", "", False, 1)),
    "pending_news": calls.pending_news(KEYS, "ops"),
    "mark_notified": calls.mark_notified(KEYS, "ops", [PendingNewsGroup("g", "1", b"")], "1", "0"),
    "repair": repair(KEYS, "g", dry_run=False),
    "register": calls.register(REGISTRY, None, ONE),
    "sync_shard": sync_shard(KEYS, ONE),
}


def own_source(name: str) -> str:
    """The file itself, without its parts."""
    return (LUA / f"{name}.lua").read_text(encoding="utf-8")


def header(name: str) -> str:
    lines = itertools.takewhile(lambda line: line.startswith("--"), own_source(name).splitlines())
    return "\n".join(lines)


def declared(name: str, kind: str) -> dict[int, str]:
    """Position -> the word behind it, from the header."""
    return {int(n): word for n, word in re.findall(rf"{kind}\[(\d+)\] (\w+)", header(name))}


def test_every_script_has_an_example_here_is_exported_and_belongs_to_a_role() -> None:
    """An admin may run all; `repair` is for nobody else."""
    assert sorted(EXAMPLES) == NAMES
    assert {*NAMES} < {*vars(calls)}
    of_roles = {name for names in _SCRIPTS.values() for name in names.split()}
    assert {*NAMES} - of_roles == {"repair"}
    assert of_roles <= {*NAMES}
    assert {command for name in NAMES for command in commands_in(script_source(name))} <= needed("admin")
    assert [name for name, call in EXAMPLES.items() if not call.repeatable] == ["claim"]


def test_header_and_caller_agree() -> None:
    """Most name the schedule alone, and make the other keys of it (parts/keys)."""
    for name, call in EXAMPLES.items():
        assert header(name).startswith(f"-- {name}: ")
        assert "-- RETURN" in header(name), name
        keys, args = declared(name, "KEYS") or {1: "schedule"}, declared(name, "ARGV")
        assert sorted(keys) == list(range(1, len(call.keys) + 1)), name
        for position, word in keys.items():
            wanted = REGISTRY if word == "registry" else getattr(KEYS, word)
            assert call.keys[position - 1] == wanted, f"KEYS[{position}] of {name} is {word}"
        assert sorted(args) == list(range(1, len(call.args) + 1)), name


def test_the_clock_of_each_script_can_be_set() -> None:
    for name, call in EXAMPLES.items():
        assert at_time(call.eval_command("3.7"), 7)[-2:] == ("7", "3.7"), name


def test_keys_and_arguments_get_names_once_at_the_top() -> None:
    for name in NAMES:
        code = [line for line in own_source(name).splitlines() if not line.startswith("--")]
        uses = [i for i, line in enumerate(code) if re.search(r"\b(KEYS|ARGV)\[", line) and "ARGV[3 + i]" not in line]
        assert uses == list(range(len(uses))), f"{name}: KEYS or ARGV used below the first lines"


def test_each_file_stays_within_its_budget() -> None:
    for name in NAMES + PARTS:
        lines = own_source(name).splitlines()
        code = [line for line in lines if line.strip() and not line.lstrip().startswith("--")]
        assert len(code) <= (PART_LINES if name in PARTS else SCRIPT_LINES), name
        assert max(map(len, lines)) <= WIDTH, name
        assert ";" not in re.sub(r"'[^'\n]*'|--.*", "", own_source(name)), f"{name}: one statement a line"
    assert max(len(script_source(name).splitlines()) for name in NAMES) <= ASSEMBLED_LINES


def test_each_part_is_used_and_is_functions_and_values() -> None:
    texts = [own_source(name) for name in NAMES + PARTS]
    wanted = {name for text in texts for name in re.findall(r"^--\+ (.+)$", text, re.MULTILINE)}
    assert wanted | {"rights"} == {name.removeprefix("parts/") for name in PARTS}
    for name in {*PARTS} - {"parts/rights", "parts/generation"}:
        at_the_margin = [line for line in own_source(name).splitlines() if re.match(r"[^\s-]", line)]
        assert all(re.match(r"local function \w+\(|local [\w, ]+ = |end$|}$", line) for line in at_the_margin), name
        assert header(name).startswith(f"-- {Path(name).name}: ")


READS = {
    *("TIME", "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET", "LLEN", "SCARD", "SISMEMBER"),
    *("SMISMEMBER", "ZCARD", "ZCOUNT", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZSCAN", "ZSCORE"),
}
ASKS = "local lacks, may, key = nil, redis.acl_check_cmd, KEYS[1]"


PACKED = ("append", "claim", "ack")
"""They read the generation with the rules, in one field (parts/packed_rules)."""
NO_GENERATION = {
    "renew": "it only prolongs a token that is valid",
    "repair": "it works on a shard as it is",
    "register": "it makes generations, and compares what its caller saw",
    "sync_shard": "so it does",
}


def test_each_script_compares_the_generation_before_it_writes_or_answers() -> None:
    """But for these. What it was asked behind all other arguments is what the net puts there."""
    for name in NAMES:
        text = script_source(name)
        asks = text.find("redis.error_reply('GENERATION '")
        assert (asks >= 0) == (name not in NO_GENERATION), name
        behind = text[text.find("local generation = ARGV[#ARGV]") : asks]
        assert commands_in(behind) <= READS, name
        before = re.sub(r"call\('HDEL', leases, ''\)", "", text[: max(0, asks)])
        assert commands_in(before) <= READS, name
        own = own_source(name).partition("if not ends" if name in PACKED else "--+ generation\n")[0]
        assert not re.search(r"^\s*(if .* then )?return\b", own, re.MULTILINE) or name in NO_GENERATION, name


def test_rights_are_asked_for_before_the_first_write() -> None:
    for name in NAMES:
        lines = [line.strip() for line in script_source(name).splitlines() if line and not line.startswith("--")]
        begins = [at for at, line in enumerate(lines) if line == ASKS]
        assert begins, name
        assert "--+" not in script_source(name), name
        assert commands_in("\n".join(lines[: begins[0]])) <= READS, f"{name}: before the first question it only reads"
        for begin, end in zip(begins, [*begins[1:], None], strict=True):
            question, behind = lines[begin + 1], "\n".join(lines[begin + 2 : end])
            assert question.startswith("if may then lacks = not may("), name
            asked = re.findall(r"may\('([A-Z]+)', key, key\)", question)
            assert asked == sorted(commands_in(behind) - {"TIME"}), f"{name}: each once, and no other"


def test_the_first_write_is_right_at_maxmemory() -> None:
    """append's first write must be one that a full server refuses; everybody else's, one that it allows."""
    refused, none = ("append", "redrive", "rerun"), ("inspect", "find", "pending_news")
    write = re.compile(r"\bcall\('(HDEL|SET|DEL|ZADD|HSET|HSETNX|RPUSH|ZREM|HINCRBY|LTRIM|SADD|SREM)'")
    for name in NAMES:
        first = [] if name in none else ["SET" if name in refused else "HDEL"]
        assert write.findall(own_source(name))[:1] == first, name


def test_a_key_is_built_in_one_file_only() -> None:
    for path in {*LUA.parent.rglob("*.py")} - {LUA.parent / "store" / "keys.py"}:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"[\"'](order|body|schedule|dispatch|leases|clock):", text), path
