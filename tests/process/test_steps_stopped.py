"""A consumer stands still in the middle of a step, for longer than its lease: real processes, and SIGSTOP.

Its successor goes on from what is in the server. What the old one writes when it wakes up is refused. Three guards see
to that: the old one looks at its own clock, the script at the token, and at the serial of the ledger. Each hides the
others here; tests/server/test_steps_fenced.py has the token alone.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.store.ledger import decode_ledger
from sequencer.store.record import decode_head
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from .conftest import Cli, Running

pytestmark = pytest.mark.slow
LEASE_S = {"old": 1, "new": 20}
PROGRAM = """
import json, os, sys
from sequencer import Sequencer
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import LeaseLost
from sequencer.testing import wait_until

WHO, SHAPE, LEASE_S = {words!r}
seq = Sequencer("gifts", namespace=os.environ["SEQUENCER_NAMESPACE"], backoff=0.01)


def note(*words):
    with open("effects", "a", encoding="utf-8") as effects:
        print(json.dumps([WHO, *words]), file=effects)


def effect(id, name, token):
    note(id, name, token)
    gate = f"{{WHO}}-{{id}}-{{name}}"
    if gate in ("old-m1-b", "new-m1-c"):
        wait_until(lambda: os.path.exists(gate), 60)
    return name


if SHAPE == "inline":

    @seq.handler
    def handle(message, steps):
        try:
            for name in "abc":
                steps.run(name, effect, message.id, name, steps.token)
        except LeaseLost as error:
            note(message.id, type(error).__name__, steps.token)
            raise

else:
    for order, name in enumerate("abc"):
        once = (SHAPE, name) == ("once", "b")
        seq.step(name=name, order=order, once=once)(lambda message, step: effect(message.id, step.name, step.token))
handle_pass = StepRunner.handle


def told(self, group, position):
    message = group.leased.messages[position]
    end = yield from handle_pass(self, group, position)
    note(message.id, f"{{type(end).__name__}} {{getattr(end, 'code', '')}}".strip(), message.token)
    return end


StepRunner.handle = told
{control}
seq.consume(until_empty=True, lease=LEASE_S)
"""
WITHOUT_GUARDS = """
from sequencer.calls import source
from sequencer.drain.effects import Note

real = source.script_source
CHECK = "if not held or sub(held, 1, 16) ~= token then return 0 end"
source.script_source = lambda name: real(name).replace(CHECK, "") if name == "save_step" else real(name)


def note_whatever(self, ledger, names, *, has_progressed, is_start):
    return (yield Note(self._group, self._written(ledger), has_progressed))


if WHO == "old":
    assert CHECK in real("save_step")
    StepRunner.note = note_whatever
"""


class Scene:
    """An old consumer that is stopped in step b of m1, and its successor in step c of it."""

    def __init__(self, cli: Cli, seq: Sequencer, link: Link, shape: str, control: str = "") -> None:
        self.cli, self.seq, self.link = cli, seq, link
        for id in ("m1", "m2"):
            seq.append(1, "g", id=id)
        self.old = self.start("old", shape, control)
        self.wait_for("old", "m1", "b")
        os.kill(self.old.pid, signal.SIGSTOP)
        self.new = self.start("new", shape, control)
        self.wait_for("new", "m1", "c")

    def start(self, who: str, shape: str, control: str) -> Running:
        return self.cli.script(PROGRAM.format(words=(who, shape, LEASE_S[who]), control=control))

    def effects(self) -> list[tuple[str, str, str, int]]:
        path = self.cli.directory / "effects"
        text = path.read_text() if path.exists() else ""
        return [tuple(json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wait_for(self, *words: str) -> None:
        def is_there() -> bool:
            return any(one[:3] == words for one in self.effects())

        wait_until(is_there, PATIENCE_S, f"{words}: {self.effects()}")

    def record(self) -> bytes:
        keys = shard_keys(self.seq.options.namespace, "gifts", 0)
        kept: bytes = self.link.command("HGET", keys.body("g"), "m1")
        return kept

    def wake_the_old_one(self) -> None:
        """It ends its step, and its pass; the successor waits meanwhile."""
        os.kill(self.old.pid, signal.SIGCONT)
        self.cli.open("old-m1-b")
        ends = ("Lost 0", "Finished", "Unfinished")

        def has_ended() -> bool:
            return any(who == "old" and id == "m1" and what in ends for who, id, what, _ in self.effects())

        wait_until(has_ended, PATIENCE_S, f"the end of the old one's pass: {self.effects()}, {self.old.stderr}")

    def check(self, before: bytes) -> None:
        """What the old one did, and that the ledger is its successor's."""
        lines = [(what, token) for who, id, what, token in self.effects() if who == "old" and id == "m1"]
        words = [what for what, _ in lines if what != "LeaseLost"]
        assert words == ["a", "b", "Lost 0"], f"the old one did {words}"
        assert self.record() == before, "nothing of the old one is written"
        token = next(token for who, id, _, token in self.effects() if (who, id) == ("new", "m1"))
        assert token > lines[0][1]

    def end(self) -> list[tuple[str, str]]:
        """Let the successor go on until both end; what was done of both messages from then on."""
        done = len(self.effects())
        self.cli.open("new-m1-c")
        assert [one.ended(PATIENCE_S) for one in (self.new, self.old)] == [0, 0]
        return [(id, what) for _, id, what, _ in self.effects()[done:]]


@pytest.fixture
def gifts(make: Callable[..., Sequencer]) -> Sequencer:
    return make("gifts", backoff=0.01)


M2 = [("m2", "a"), ("m2", "b"), ("m2", "c"), ("m2", "Finished")]


@pytest.mark.nightly
@pytest.mark.parametrize("shape", ["automatic", "inline"])
def test_what_a_consumer_writes_after_its_lease_is_refused(cli: Cli, gifts: Sequencer, link: Link, shape: str) -> None:
    scene = Scene(cli, gifts, link, shape)
    before = scene.record()
    scene.wake_the_old_one()
    scene.check(before)
    written = decode_head(before).written
    assert written
    entries = [(entry.name, entry.state, entry.attempts) for entry in decode_ledger(written.ledger).entries]
    assert entries[:2] == [("a", "done", 1), ("b", "done", 1)]
    assert any(what == "LeaseLost" for _, _, what, _ in scene.effects()) == (shape == "inline")
    assert scene.end() == [("m1", "Finished"), *M2]
    ran = [(id, what) for who, id, what, _ in scene.effects() if who == "new" and len(what) == 1]
    assert ran[:2] == [("m1", "b"), ("m1", "c")], "the successor goes on behind what was noted"


def test_a_once_step_of_one_that_stood_still_is_a_question_and_never_runs_again(
    cli: Cli, gifts: Sequencer, link: Link
) -> None:
    scene = Scene(cli, gifts, link, "once")
    before = scene.record()
    scene.wake_the_old_one()
    scene.check(before)
    assert scene.end() == [("m1", "Unfinished")]
    (parked,) = gifts.parked()
    assert parked.failure
    assert parked.failure.type == "StepUnknown"
    found = gifts.steps("g")
    assert found
    assert [one.state for one in found.steps] == ["done", "started", "done"]
    assert gifts.resume("g", done={"b": 1})
    last = scene.start("new", "once", "")
    assert last.ended(PATIENCE_S) == 0
    ran: list[Any] = [(id, what) for _, id, what, _ in scene.effects() if len(what) == 1]
    assert ran == [("m1", "a"), ("m1", "b"), ("m1", "c"), *M2[:3]], "each once, in the order of the messages"


@pytest.mark.nightly
def test_an_old_one_without_its_guards_is_found(cli: Cli, gifts: Sequencer, link: Link) -> None:
    """It goes on with the next step, beside its successor."""
    scene = Scene(cli, gifts, link, "automatic", WITHOUT_GUARDS)
    before = scene.record()
    scene.wake_the_old_one()
    with pytest.raises(AssertionError, match=r"the old one did \['a', 'b', 'c'"):
        scene.check(before)
    scene.end()
