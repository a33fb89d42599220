"""Two versions of a program at one queue, in real processes beside each other: steps are added, cut, shuffled, retired.

Half of the messages can only be finished once both versions did something for them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

if TYPE_CHECKING:
    from .conftest import Cli

pytestmark = pytest.mark.nightly
PATIENCE_S = 60.0
STEPS = {"v1": ("prepare", "charge", "points", "stamp", "mail"), "v2": ("points", "label", "charge", "prepare")}
"""In their order. `v2` has retired `mail`, and it lacks `stamp`, which is only `v1`'s to do."""
REQUIRED = {"v1": {*STEPS["v1"]} - {"mail"}, "v2": {*STEPS["v2"]}}
PROGRAM = """
import json, os
from sequencer import Retry, Sequencer
from sequencer.drain.steps import runner
from sequencer.store.ledger import decode_ledger

VERSION, NAMES = {words!r}
names = {{"namespace": os.environ["SEQUENCER_NAMESPACE"], "retired": ("mail",) if VERSION == "v2" else ()}}
seq = Sequencer("gifts", **names, backoff=0.01, backoff_cap=0.1)


def effects():
    if not os.path.exists("effects"):
        return []
    with open("effects", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\\n")]


def effect(message, step):
    if step.name == "prepare" and message.body % 2 == 0:
        touched = {{version for version, id, *_ in effects() if id == message.id}}
        if touched != {{"v1", "v2"}}:
            raise Retry("not before both versions did something")
    if step.name in ("charge", "stamp", "mail") and step.attempt <= message.body % 3:
        raise Retry("nothing happened")
    line = json.dumps([VERSION, message.id, step.name, step.result, step.results]) + "\\n"
    file = os.open("effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)
    return f"{{step.name}} of {{message.id}}"


for order, name in enumerate(NAMES):
    after = "charge" if name == "points" else ""
    seq.step(name=name, order=order, after=after, once=name == "charge", attempts=9_999)(effect)
{control}
seq.consume()
"""
BY_POSITION = """
from dataclasses import replace


def by_position(text):
    ledger = decode_ledger(text)
    names = [*NAMES, *(entry.name for entry in ledger.entries[len(NAMES):])]
    return replace(ledger, entries=tuple(replace(e, name=name) for e, name in zip(ledger.entries, names)))


runner.decode_ledger = by_position
"""


class Done(NamedTuple):
    version: str
    id: str
    step: str
    result: str | None
    results: dict[str, str]


class Scene:
    """Both versions at work on the same messages."""

    def __init__(self, cli: Cli, seq: Sequencer, control: str = "") -> None:
        self.cli, self.seq = cli, seq
        self.ids = [f"m{number}" for number in range(24)]
        for number, id in enumerate(self.ids):
            seq.append(number, f"g{number % 8}", id=id)
        self.running = [cli.script(PROGRAM.format(words=words, control=control)) for words in STEPS.items()]

    def effects(self) -> list[Done]:
        path = self.cli.directory / "effects"
        text = path.read_text() if path.exists() else ""
        return [Done(*json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wrong(self) -> list[str]:
        """What no order of two versions explains: a second effect, or the result of another step."""
        done = self.effects()
        found = [
            f"{key} took effect {count} times" for key, count in Counter(e[1:3] for e in done).items() if count > 1
        ]
        for one in done:
            given = {**one.results, **({} if one.result is None else {"charge": one.result})}
            if any(result != f"{name} of {one.id}" for name, result in given.items()):
                found.append(f"{one.step} of {one.id} got {given}")
        return found

    def skipped(self) -> list[str]:
        """Of a queue that is empty: messages without a step that a version which began them has and needs."""
        done, versions = defaultdict(set), defaultdict(set)
        for one in self.effects():
            done[one.id].add(one.step)
            versions[one.id].add(one.version)
        missing = {id: {s for v in versions[id] for s in REQUIRED[v]} - done[id] for id in self.ids}
        return [f"{id} ended without {sorted(names)}" for id, names in missing.items() if names]

    def until_empty(self) -> None:
        def is_over() -> bool:
            assert all(one.process.poll() is None for one in self.running), [one.stderr for one in self.running]
            return not self.seq.info().backlog or bool(self.wrong()) or bool([*self.seq.parked()])

        wait_until(is_over, PATIENCE_S, f"{self.seq.info()} {[one.stderr[-500:] for one in self.running]}")


@pytest.fixture
def gifts(make: Callable[..., Sequencer]) -> Sequencer:
    return make("gifts", backoff=0.01)


def test_each_step_of_both_versions_keeps_its_contract(cli: Cli, gifts: Sequencer) -> None:
    scene = Scene(cli, gifts)
    scene.until_empty()
    assert scene.wrong() == []
    assert scene.skipped() == []
    assert [*gifts.parked()] == []
    assert [*gifts.dead()] == []
    both = {one.id for one in scene.effects() if one.version == "v1"}
    both &= {one.id for one in scene.effects() if one.version == "v2"}
    assert {id for number, id in enumerate(scene.ids) if number % 2 == 0} <= both


def test_steps_that_are_matched_by_position_are_found(cli: Cli, gifts: Sequencer) -> None:
    scene = Scene(cli, gifts, BY_POSITION)
    scene.until_empty()
    assert scene.wrong() or scene.skipped()
