"""A client of another protocol: every script refuses it before its first write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sequencer import calls
from sequencer.calls.call import Call
from sequencer.errors import Park, SequencerError
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.store.registration import PROTOCOL
from tests.support.every_script import run_every_script
from tests.support.handling import Make

from ..support.changed_script import changed_script

LUA = Path(calls.__file__).parents[1] / "lua"
WITHOUT_GENERATION = {"adopt", "register", "repair"}
"""Two change the generation, and `repair` works on any. A client of another protocol ends at the registry, before
them.
"""
BY_TOKEN = {"renew"}
"""Of groups that a claim leased, which was refused."""


def dump(link: Link, namespace: str) -> dict[bytes, Any]:
    return {name: link.command("DUMP", name) for name in sorted(link.command("KEYS", f"*{namespace}:*"))}


def refused(make: Make, link: Link, namespace: str) -> set[str]:
    """Which scripts refuse a program of another protocol; nothing is written.

    There are a parked message and a dead letter, each with a step that is done.
    """
    seq = make("jobs")
    seq.step(name="charge", once=True)(lambda message: "paid")

    @seq.step(order=2)
    def points(message: Any) -> None:
        raise Park("no points")

    seq.append_many({"body": 1, "group": group, "id": "m"} for group in "ab")
    seq.consume(until_empty=True)
    seq.skip("b", dead_letter=True)
    (letter,) = seq.dead()
    keys = shard_keys(namespace, "jobs", 0)
    generation = link.command("HGET", keys.policy, "generation").decode()
    other = generation.replace(f"{PROTOCOL}.", f"{PROTOCOL - 1}.", 1)
    assert other != generation
    before = dump(link, namespace)
    found = set()

    def run(call: Call[Any]) -> None:
        if call.script in WITHOUT_GENERATION | BY_TOKEN:
            return
        try:
            said = link.command(*call.eval_command(other))
        except SequencerError as error:
            said = str(error)
        assert f"GENERATION {generation}" in str(said), f"{call.script} answers {said!r}"
        found.add(call.script)

    run_every_script(run, keys)
    run(calls.redrive(keys, [f"{letter.message.stamp:016}b\nm"]))
    assert dump(link, namespace) == before, "nothing was written"
    return found


def test_a_client_of_another_protocol_is_refused_in_every_script(make: Make, link: Link, namespace: str) -> None:
    everything = {path.stem for path in LUA.glob("*.lua")}
    assert refused(make, link, namespace) == everything - WITHOUT_GENERATION - BY_TOKEN


def test_a_redrive_that_does_not_compare_it_is_found(make: Make, link: Link, namespace: str) -> None:
    with (
        changed_script("redrive", "if there ~= generation then", "if false then"),
        pytest.raises(AssertionError, match="redrive answers"),
    ):
        refused(make, link, namespace)
