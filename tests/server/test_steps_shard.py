"""The scripts do to ledgers what the model of steps does: the same random calls on both, answer for answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sequencer import EmbeddedServer

from ..support.examples import examples
from ..support.steps_model.ledger import Entry, Ledger
from ..support.steps_model.record import Record
from ..support.steps_model.shard import Shard
from ..support.steps_shard import walk

IDS = st.sampled_from("abc")
ENTRIES = st.lists(
    st.sampled_from(
        [
            Entry("mail"),
            Entry("mail", state="failed", attempts=1, error="E"),
            Entry("charge", once=True, state="started", token=1),
            Entry("charge", once=True, turn=2),
            Entry("points", state="done", attempts=1, result={"n": 1}),
            Entry("gift", optional=True, once=True, state="left"),
        ]
    ),
    max_size=3,
    unique_by=lambda entry: entry.name,
).map(tuple)
STEP = st.one_of(
    st.tuples(
        *(st.just("append"), IDS, st.integers(1, 3), st.sampled_from([0, 0, 0, 2000, 9000]), st.booleans()),
        st.sampled_from([None, None, {"charge": {"n": 1}}]),
    ),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("note"), st.integers(0, 2), ENTRIES, st.booleans(), st.booleans(), st.booleans()),
    st.tuples(st.just("note"), st.integers(0, 2), ENTRIES, st.booleans(), st.booleans(), st.booleans()),
    st.tuples(st.just("again"), st.integers(0, 5)),
    st.tuples(st.just("ack"), st.booleans()),
    st.tuples(
        *(st.just("nack"), ENTRIES, st.booleans(), st.sampled_from(["", "", "park", "dead", "drop"])),
        *(st.sampled_from(["", "outage", "missing"]), st.booleans()),
    ),
    st.tuples(st.just("release")),
    st.tuples(st.just("resume"), st.none() | ENTRIES, st.booleans()),
    st.tuples(st.just("skip"), st.booleans()),
    st.tuples(st.just("redrive"), IDS, st.none() | ENTRIES, st.booleans()),
    st.tuples(st.just("cancel"), IDS),
    st.tuples(st.just("reschedule"), IDS, st.sampled_from([0, 3000])),
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, min_size=4, max_size=30))
def test_scripts_do_to_ledgers_what_the_model_does(server: EmbeddedServer, steps: list[Any]) -> None:
    walk(server, [("append", "a", 1, 0, False), ("append", "b", 2, 0, False), *steps], Shard())


STARTED = (Entry("charge", once=True, state="started", token=1),)
OPEN = (Entry("mail"),)
AB = [("append", "a", 1, 0, False), ("append", "b", 2, 0, False), ("append", "c", 3, 0, False)]
CLAIM = ("claim", 3)


def noted(entries: Any, *, at: int = 0, progressed: bool = False, behind: bool = False, stale: bool = False) -> Any:
    return ("note", at, entries, progressed, behind, stale)


def nacked(ending: str = "", *, entries: Any = OPEN, verdict: str = "", behind: bool = False) -> Any:
    return ("nack", entries, False, ending, verdict, behind)


class NoRepeats(Shard):
    def is_repeat(self, held: Record, serial: int) -> bool:
        return False


class CountsAll(Shard):
    def counted(self, held: Record, *, has_progressed: bool) -> int:
        return held.unanswered


class ForgetsStamp(Shard):
    def rescheduled(self, record: Record) -> Ledger | None:
        return record.ledger


class NothingBefore(Shard):
    def is_before(self, group: Any, member: tuple[int, str]) -> bool:
        return False


class AnyToken(Shard):
    def is_valid(self, group: Any, token: int) -> bool:
        return bool(group.token)


class Unprotected(Shard):
    def is_protected(self, record: Record) -> bool:
        return False


class AnyFailure(Shard):
    def is_seen(self, message_id: str, seen: Any) -> bool:
        return True


class KeepsLedger(Shard):
    """A message that takes the place of another gets its ledger."""

    def new(self, record: Record) -> Record:
        group = self.groups[record.group]
        before = group.records.get(record.id)
        return replace(record, ledger=before.ledger if before else None)


class LosesDone(Shard):
    """What a message was appended with is not kept."""

    def new(self, record: Record) -> Record:
        return replace(record, ledger=None)


TRACES: dict[type[Shard], list[Any]] = {
    NoRepeats: [CLAIM, noted(STARTED), noted(OPEN), ("again", 0)],
    CountsAll: [CLAIM, CLAIM, noted(OPEN, progressed=True)],
    ForgetsStamp: [("reschedule", "a", 3000)],
    NothingBefore: [CLAIM, noted(OPEN, at=1, behind=True)],
    AnyToken: [CLAIM, noted(OPEN, stale=True)],
    Unprotected: [CLAIM, noted(STARTED), ("release",), ("cancel", "a")],
    AnyFailure: [CLAIM, nacked("dead", entries=STARTED), ("redrive", "a", None, True)],
    KeepsLedger: [CLAIM, noted(OPEN), ("release",), ("append", "a", 1, 0, True)],
    LosesDone: [("append", "a", 1, 9000, True, {"charge": 1}), ("append", "d", 4, 0, False, {"charge": 1}), CLAIM],
}
MISSING, ACK, REDRIVE = nacked(verdict="missing"), ("ack", True), ("redrive", "a", None, False)
LATER = ("append", "a", 1, 9000, True)
LONG: list[list[Any]] = [
    [CLAIM, MISSING, CLAIM, MISSING, CLAIM, nacked(verdict="outage"), CLAIM, nacked()],
    [CLAIM, CLAIM, noted(STARTED), nacked("park"), ("resume", OPEN, True), ("resume", OPEN, False), CLAIM, ACK],
    [CLAIM, CLAIM, nacked("park", entries=STARTED), ("skip", True), ("skip", False), REDRIVE, CLAIM],
    [CLAIM, nacked("dead", entries=STARTED), ("redrive", "a", STARTED, False), CLAIM, noted(OPEN), ("again", -1)],
    [CLAIM, ("ack", False), nacked(behind=True), ("reschedule", "b", 0), ("reschedule", "b", 3000), CLAIM],
    [LATER, ("reschedule", "a", 3000), CLAIM, noted(OPEN), ("release",), ("reschedule", "a", 0)],
]


@pytest.mark.parametrize("control", TRACES)
def test_a_rule_of_the_model_that_is_taken_away_shows(server: EmbeddedServer, control: type[Shard]) -> None:
    walk(server, [*AB, *TRACES[control]], Shard())
    with pytest.raises(AssertionError):
        walk(server, [*AB, *TRACES[control]], control())


@pytest.mark.parametrize("steps", LONG)
def test_what_chance_rarely_finds(server: EmbeddedServer, steps: list[Any]) -> None:
    walk(server, [*AB, *steps], Shard())
