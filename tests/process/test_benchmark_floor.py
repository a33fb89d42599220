"""Scenario `floor`: the raw commands and the bare scripts keep the same keys as sequencer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.load.workload import Spread, Workload
from benchmarks.scenarios.floor import raw, scripted
from sequencer import Sequencer
from sequencer.consume.forks import owner_name
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import index_key

pytestmark = pytest.mark.nightly


# -- the same keys --------------------------------------------------------------------------------------------


@pytest.fixture
def messages(make: Callable[..., Sequencer], link: Link, namespace: str) -> list[Any]:
    """As many of seven groups, in queue `ours`; the others have its policy."""
    messages, ours = list(Workload(Spread(7), 600, 1, seed=3).planned(0)), make("ours")
    ours.connect()
    for other in ("raw", "scripts"):
        link.command("HSET", index_key(namespace), other, 1)
        link.command("COPY", raw.keys_of(namespace, "ours").policy, raw.keys_of(namespace, other).policy)
    ours.append_many({"group": [m.group], "id": m.id, "body": m.body()} for m in messages)
    return messages


def test_raw_keeps_the_same_keys(make: Callable[..., Sequencer], link: Link, namespace: str, messages: Any) -> None:
    ours, keys = make("ours"), raw.keys_of(namespace, "raw")
    for commands in raw.appends(keys, raw.batches(messages)):
        raw.ask(link, keys, commands)
    check_same(link, namespace, "after the appends", leases=False)
    batches = raw.parts(messages)
    trips = 0

    def watched(commands: list[raw.Command]) -> list[Any]:
        nonlocal trips
        trips += 1
        if trips > 1:
            return raw.ask(link, keys, commands)
        with ours.claim(groups=len(batches[0]), messages=1000):
            answers = raw.ask(link, keys, commands)
            check_same(link, namespace, "while groups are leased", leases=True)
        return answers

    found = raw.run(raw.consumes(keys, batches, owner_name()), watched)
    assert trips == len(batches) + 1
    assert raw.fault(messages, found) == ""
    assert ours.consume(lambda _: None, until_empty=True).handled == len(messages)
    check_same(link, namespace, "at the end", leases=False)


def test_scripts_keep_the_same_keys(make: Callable[..., Sequencer], link: Link, namespace: str, messages: Any) -> None:
    ours = make("ours")
    scripts = scripted.Scripts(link, raw.keys_of(namespace, "scripts").prefix)
    scripts.append(scripted.chunks(messages))
    check_same(link, namespace, "after the appends", leases=False, other="scripts")
    found: list[raw.Found] = []
    for batch in scripts.batches(owner_name(), ClaimLimits(groups=5, messages=500)):
        if not found:
            with ours.claim(groups=len(batch), messages=500):
                check_same(link, namespace, "while groups are leased", leases=True, other="scripts")
        found += batch
    assert raw.fault(messages, found) == ""
    assert ours.consume(lambda _: None, until_empty=True).handled == len(messages)
    check_same(link, namespace, "at the end", leases=False, other="scripts")


def check_same(link: Link, namespace: str, when: str, *, leases: bool, other: str = "raw") -> None:
    """The same keys, with as many elements and of about the same size: a table may be growing."""
    ours, its = (snapshot(link, raw.keys_of(namespace, queue).prefix) for queue in ("ours", other))
    assert ours == its, when
    assert ("leases" in ours) is leases, when
    for name in ours:
        one, two = (
            link.command("MEMORY", "USAGE", raw.keys_of(namespace, queue).prefix + name, "SAMPLES", 0)
            for queue in ("ours", other)
        )
        assert abs(one - two) <= max(96, one * 0.25), (when, name, one, two)


def snapshot(link: Link, prefix: str) -> dict[str, tuple[str, str, int]]:
    """Of every key below the prefix: type, encoding and number of elements."""
    sizes = {"list": "LLEN", "set": "SCARD", "hash": "HLEN", "zset": "ZCARD"}
    found = {}
    for key in link.command("KEYS", "*"):
        name = key.decode()
        if name.startswith(prefix):
            kind = link.command("TYPE", name).decode()
            # A number that a script sets is kept as text, and else as an integer: of no account for the one clock.
            encoding = "" if kind == "string" else link.command("OBJECT", "ENCODING", name).decode()
            found[name[len(prefix) :]] = (kind, encoding, link.command(sizes[kind], name) if kind in sizes else 1)
    return found


# -- judging --------------------------------------------------------------------------------------------------


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
