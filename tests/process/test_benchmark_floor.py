"""Scenario `floor` as a person runs it, tiny; the raw commands keep the same keys as sequencer; and the judges."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kit.rounds import Run, Turn, summarise
from benchmarks.load.workload import Planned, Spread, Workload
from benchmarks.scenarios.floor import raw, scripted
from benchmarks.scenarios.floor import trials as floor
from sequencer import Sequencer
from sequencer.consume.forks import owner_name
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import index_key

from ..support.smoke import leaves_nothing, run

pytestmark = pytest.mark.nightly

Snapshot = dict[str, tuple[str, str, Any]]
TURN = Turn(0, 1, False)


def test_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with leaves_nothing(monkeypatch):
        done = run("floor", "--smoke", "--output", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("The server's processor time for each message", "5,000 groups, zipf", "raw", "1 of 1", "r.json"):
        assert words in done.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["is_valid"]
    assert result["parameters"]["spreads"] == ["1", "zipf"]
    assert result["parameters"]["placement"] == "apart"
    assert result["machine"]["server"]["append_only_file"] is False
    assert [(entry["case"], entry["system"]) for entry in result["summary"]] == [
        (case, system) for case in ("1 group", "5,000 groups, zipf") for system in floor.SYSTEMS
    ]
    for entry in result["summary"]:
        assert entry["valid_runs"] == entry["runs"] == 1
        for phase in floor.PHASES:
            assert all(entry["figures"][f"{phase} {what}"]["min"] > 0 for what in ("us server", "us client", "/s"))
        multiples = [(entry["system"], other) for other in floor.SYSTEMS if f"both of {other}" in entry["figures"]]
        assert set(multiples) == {pair for pair in floor.MULTIPLES if pair[0] == entry["system"]}


# -- the same keys --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [raw.ask, raw.ask_singly])
@pytest.mark.parametrize("groups", [1, 7, 150])
def test_raw_keeps_the_same_keys(
    groups: int, ask: raw.Ask, make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    workload = Workload(Spread(groups), 600, 1, seed=3)
    messages = list(workload.planned(0))
    ours, keys = make("ours"), raw.keys_of(namespace, "raw")
    ours.connect()
    link.command("HSET", index_key(namespace), "raw", 1)
    link.command("COPY", raw.keys_of(namespace, "ours").policy, keys.policy)

    ours.append_many({"group": [m.group], "id": m.id, "body": m.body()} for m in messages)
    for commands in raw.appends(keys, raw.batches(messages)):
        ask(link, keys, commands)
    check_same(link, namespace, "after the appends", leases=False)

    batches = raw.parts(messages)
    trips = 0

    def watched(commands: list[raw.Command]) -> list[Any]:
        nonlocal trips
        trips += 1
        if trips > 1:
            return ask(link, keys, commands)
        with ours.claim(groups=len(batches[0]), messages=1000):
            answers = ask(link, keys, commands)
            check_same(link, namespace, "while groups are leased", leases=True)
        return answers

    found = raw.run(raw.consumes(keys, batches, owner_name()), watched)
    assert trips == len(batches) + 1
    assert raw.fault(messages, found) == ""
    assert ours.consume(lambda _: None, until_empty=True).handled == len(messages)
    check_same(link, namespace, "at the end", leases=False)


@pytest.mark.parametrize("groups", [1, 7, 150])
def test_scripts_keep_the_same_keys(groups: int, make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    messages = list(Workload(Spread(groups), 600, 1, seed=3).planned(0))
    ours, keys = make("ours"), raw.keys_of(namespace, "scripts")
    ours.connect()
    link.command("HSET", index_key(namespace), "scripts", 1)
    link.command("COPY", raw.keys_of(namespace, "ours").policy, keys.policy)

    ours.append_many({"group": [m.group], "id": m.id, "body": m.body()} for m in messages)
    scripts = scripted.Scripts(link, keys.prefix)
    scripts.append(scripted.chunks(messages))
    check_same(link, namespace, "after the appends", leases=False, other="scripts")

    limits = ClaimLimits(groups=5, messages=500)
    found: list[raw.Found] = []
    for batch in scripts.batches(owner_name(), limits):
        if not found:
            with ours.claim(groups=len(batch), messages=500):
                check_same(link, namespace, "while groups are leased", leases=True, other="scripts")
        found += batch
    assert raw.fault(messages, found) == ""
    assert ours.consume(lambda _: None, until_empty=True).handled == len(messages)
    check_same(link, namespace, "at the end", leases=False, other="scripts")


def check_same(link: Link, namespace: str, when: str, *, leases: bool, other: str = "raw") -> None:
    """The same keys with the same content, but for times, and of about the same size: a table may be growing."""
    ours, its = (snapshot(link, raw.keys_of(namespace, queue).prefix) for queue in ("ours", other))
    assert ours == its, when
    assert ("leases" in ours) is leases, when
    for name in ours:
        one, two = (
            link.command("MEMORY", "USAGE", raw.keys_of(namespace, queue).prefix + name, "SAMPLES", 0)
            for queue in ("ours", other)
        )
        assert abs(one - two) <= max(96, one * 0.25), (when, name, one, two)


def snapshot(link: Link, prefix: str) -> Snapshot:
    """Of every key below the prefix: type, encoding, and content without times and owners."""
    found: Snapshot = {}
    for key in link.command("KEYS", "*"):
        name = key.decode()
        if name.startswith(prefix):
            kind = link.command("TYPE", name).decode()
            # A number that a script sets is kept as text, and else as an integer: of no account for the one clock.
            encoding = "" if kind == "string" else link.command("OBJECT", "ENCODING", name).decode()
            found[name[len(prefix) :]] = (kind, encoding, content(link, name, kind))
    return found


def content(link: Link, key: str, kind: str) -> Any:
    words: dict[str, tuple[Any, ...]] = {
        "string": ("GET", key),
        "list": ("LRANGE", key, 0, -1),
        "set": ("SMEMBERS", key),
        "hash": ("HGETALL", key),
        "zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
    }
    reply = link.command(*words[kind])
    if key.endswith(":leases"):  # groups that are due since the same time may be leased in any order
        reply = [
            b"GROUP" if place % 2 == 0 else re.sub(rb"^\d{16}[01].+", b"LEASE", w) for place, w in enumerate(reply)
        ]
    some = [timeless(word) for word in ([reply] if kind == "string" else reply)]
    if kind in ("string", "list"):
        return some
    if kind == "set":
        return sorted(some)
    pairs = list(zip(some[::2], some[1::2], strict=True))
    return pairs if ":order:" in key else sorted(pairs)


def timeless(word: bytes) -> bytes:
    """Times give way to what they are: a score, which servers write in several ways, and a stamp."""
    try:
        is_score = 1e9 < float(word) < 1e10
    except ValueError:
        is_score = False
    return b"SCORE" if is_score else re.sub(rb"^\+?1\d{15}", b"STAMP", word)


def test_a_key_left_out_is_seen(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    ours, keys = make("ours"), raw.keys_of(namespace, "raw")
    message = Planned("g0", "0" * 16, 1)
    ours.append(message.body(), ["g0"], id=message.id)
    link.command("COPY", raw.keys_of(namespace, "ours").policy, keys.policy)
    for commands in raw.appends(keys, [[message]]):
        link.commands([words for words in commands if words[1] != keys.dispatch])
    with pytest.raises(AssertionError, match="dispatch"):
        check_same(link, namespace, "", leases=False)
    steps = raw.consumes(keys, raw.parts([message]), "owner")
    answers = link.commands(next(steps))
    link.commands(steps.send(answers))
    link.command("HSET", index_key(namespace), "raw", 1)


def test_singles_have_commands_of_their_own_for_each_message(link: Link, namespace: str) -> None:
    messages, keys = list(Workload(Spread(7), 100, 1, seed=3).planned(0)), raw.keys_of(namespace, "raw")
    sent: list[raw.Command] = []

    def noted(commands: list[raw.Command]) -> list[Any]:
        sent.extend(one for command in commands for one in raw.singly(keys, command))
        return raw.ask_singly(link, keys, commands)

    for commands in raw.appends(keys, raw.batches(messages)):
        noted(commands)
    assert raw.fault(messages, raw.run(raw.consumes(keys, raw.parts(messages), "owner"), noted)) == ""
    of_bodies = [words for words in sent if words[1].startswith(keys.body(""))]
    assert sorted(words[0] for words in of_bodies) == ["HDEL"] * 100 + ["HGET"] * 100 + ["HSET"] * 100
    of_order = [words for words in sent if words[1].startswith(keys.order(""))]
    assert sorted(words[0] for words in of_order) == ["ZADD"] * 100 + ["ZRANGE"] * 7 + ["ZREM"] * 100
    assert [words[0] for words in sent if words[1] == keys.seen] == ["SADD"] * 100
    assert {len(words) for words in of_bodies + of_order if words[0] in ("HGET", "HDEL", "ZREM")} == {3}
    link.command("DEL", *{words[1] for words in sent})


# -- judging --------------------------------------------------------------------------------------------------


def test_raw_takes_whole_groups_and_full_batches() -> None:
    messages = list(Workload(Spread(9), 250, 1, seed=1).planned(0))
    batches = raw.parts(messages)
    assert [sum(len(part.ids) for part in batch) for batch in batches] == [100, 100, 50]
    taken: dict[str, list[str]] = {}
    ended: set[str] = set()
    for part in (part for batch in batches for part in batch):
        assert part.group not in ended
        taken.setdefault(part.group, []).extend(part.ids)
        ended |= {part.group} if part.is_last else set()
    assert ended == set(taken)
    assert taken == {group: [m.id for m in messages if m.group == group] for group in taken}


@pytest.mark.parametrize("broken", ["", "lost", "twice", "swapped", "other body"])
def test_what_raw_read_wrongly_is_seen(broken: str) -> None:
    messages = list(Workload(Spread(1), 6, 1, seed=1).planned(0))
    stamps = [f"{1_700_000_000_000_000 + number}" for number in range(6)]
    members = [f"{stamp}{m.id}".encode() for stamp, m in zip(stamps, messages, strict=True)]
    commands = next(iter(raw.appends(raw.keys_of("n", "q"), [messages], lambda: 1_700_000_000_000_000)))
    records = list(next(words for words in commands if words[0] == "HSET")[3::2])
    if broken == "lost":
        members, records = members[:-1], records[:-1]
    elif broken == "twice":
        members, records = [*members, members[-1]], [*records, records[-1]]
    elif broken == "swapped":
        members[2], members[3] = members[3], members[2]
    elif broken == "other body":
        records[4] = records[4][:-5]
    found = [raw.Found(raw.parts(messages)[0][0], members, records)]
    assert bool(raw.fault(messages, found)) is bool(broken)
    assert raw.fault(messages, []) == "1 groups were not read as they were appended, for example g0"


def test_only_valid_runs_are_set_in_relation() -> None:
    def made(system: str, us: float, problem: str = "") -> Run:
        figures = {f"{name} us server": us for name in floor.THREE}
        return Run(case="1 group", turn=TURN, messages=1, system=system, problem=problem, single=figures)

    ours = floor.over(made("sequencer", 6.0), made("raw", 4.0))
    assert ours.single["both of raw"] == 1.5
    assert floor.over(ours, made("scripts", 5.0)).single["both of scripts"] == 1.2
    assert "both of raw" not in floor.over(made("sequencer", 6.0), made("raw", 4.0, "it lost one")).single
    assert "both of raw" not in floor.over(made("sequencer", 6.0, "1 losses"), made("raw", 4.0)).single
    summary = summarise([ours, made("raw", 4.0), replace(made("sequencer", 60.0), turn=Turn(0, 0, True))])
    assert summary[0]["figures"]["both us server"] == {"median": 6.0, "min": 6.0, "max": 6.0}
    assert all(rows for _, _, rows in floor.tables(summary))
