"""Steps over the real log of a help desk: each has an outcome of its own, as in a compensation queue in plain Python.

Whether a step fails follows from a hash, so that each run is the same.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple

import pytest

from sequencer import Sequencer
from sequencer.drain.steps.passes import Pass

from ..support.real_log import real_log

TICKETS, ATTEMPTS = 200, 3


class Planned(NamedTuple):
    """A step; of `share` of the attempts, or of all attempts of `share` of the messages, it fails."""

    share: float
    always: bool = False
    once: bool = False
    optional: bool = False

    @property
    def limit(self) -> int:
        return 1 if self.once or self.optional else ATTEMPTS

    def fails(self, name: str, id: str, attempt: int) -> bool:
        text = f"{name} {id}" if self.always else f"{name} {id} {attempt}"
        return int.from_bytes(sha256(text.encode()).digest()[:4]) < self.share * 2**32


STEPS = {
    "charge": Planned(0.02, once=True),
    "points": Planned(0.30),
    "label": Planned(0.01, always=True),
    "mail": Planned(0.10, optional=True),
}
REQUIRED = {name for name, step in STEPS.items() if not step.optional}
Runs = list[tuple[str, int]]
"""Step and attempt, in their order."""


def model(id: str) -> tuple[Runs, set[str]]:
    """What a compensation queue runs of a message, and what is done in the end: passes over what is not done, in which
    a step that fails does not stop the next one, until nothing may be retried.
    """
    runs, done, attempts = list[tuple[str, int]](), set[str](), Counter[str]()
    for _ in range(ATTEMPTS):
        for name, step in STEPS.items():
            if name not in done and attempts[name] < step.limit:
                attempts[name] += 1
                runs.append((name, attempts[name]))
                done |= set() if step.fails(name, id, attempts[name]) else {name}
        if done >= REQUIRED:
            break
    return runs, done


class Seen:
    """What a queue with these steps did of the events."""

    def __init__(self, seq: Sequencer, events: list[dict[str, Any]]) -> None:
        self.runs: defaultdict[str, Runs] = defaultdict(list)
        self.order: defaultdict[str, list[str]] = defaultdict(list)
        """Ticket -> the id of each run."""
        self.keys: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for name, step in STEPS.items():
            seq.step(name=name, once=step.once, optional=step.optional)(self.run)
        seq.append_many(events)
        self.summary = seq.consume(until_empty=True)

    def run(self, message: Any, step: Any) -> None:
        self.runs[message.id].append((step.name, step.attempt))
        self.order[message.group[0]].append(message.id)
        self.keys[message.id, step.name].add(step.key)
        if STEPS[step.name].fails(step.name, message.id, step.attempt):
            raise ValueError("no")

    def check(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            runs, _ = model(id := str(event["n"]))
            assert self.runs[id] == runs, f"{id} ran {self.runs[id]}, and should have run {runs}"


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "sequencer")


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    """All events of some tickets."""
    tickets: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in map(json.loads, real_log()):
        tickets[event["case"]].append(event)
    return [event for ticket in list(tickets.values())[:TICKETS] for event in ticket]


@pytest.fixture
def seq(make: Callable[..., Sequencer]) -> Sequencer:
    by = {"group_by": ("case",), "id_by": "n", "score_by": "ts"}
    aside: Any = {"on_failure": "dead_letter", "on_unresolved": "dead_letter"}
    return make("tickets", max_attempts=ATTEMPTS, backoff=0.001, history_window=3600, **by, **aside)


@pytest.mark.slow
def test_each_step_has_an_outcome_of_its_own(seq: Sequencer, events: list[dict[str, Any]]) -> None:
    seen = Seen(seq, events)
    seen.check(events)
    assert all(len(keys) == 1 for keys in seen.keys.values()), "a step has one key for all its attempts"
    attempts = Counter(len([one for one, _ in runs if one == name]) for runs in seen.runs.values() for name in STEPS)
    assert {*attempts} == {1, 2, 3}, "none is left out, and none is tried too often"

    ends = {str(event["n"]): model(str(event["n"]))[1] for event in events}
    letters = {letter.message.id: letter for letter in seq.dead(limit=10_000)}
    assert {*letters} == {id for id, done in ends.items() if not done >= REQUIRED}
    for id, letter in letters.items():
        assert letter.steps
        assert {one.name for one in letter.steps.steps if one.state == "done"} == ends[id]
        assert letter.steps.questions == (() if "charge" in ends[id] else ("charge",))
    told = {info.id: info.state for info in seq.history()}
    well = {id: "finished" if done == {*STEPS} else "failed" for id, done in ends.items() if done >= REQUIRED}
    assert told == well
    assert len(letters) > 20
    assert Counter(well.values())["failed"] > 20

    for ticket, ids in seen.order.items():
        log = [str(event["n"]) for event in events if event["case"] == ticket]
        assert [id for id, _ in groupby(ids)] == log, f"{ticket}: message by message, in the order of the log"


def test_a_pass_that_stops_at_the_first_failure_is_found(
    seq: Sequencer, events: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Pass._next_step
    monkeypatch.setattr(Pass, "_next_step", lambda one: None if one._errors else real(one))
    seen = Seen(seq, events[:60])
    with pytest.raises(AssertionError, match="and should have run"):
        seen.check(events[:60])
