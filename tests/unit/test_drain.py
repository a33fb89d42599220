"""The drain protocol against the model, under every interleaving hypothesis can think of; and controls that must
fail.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import sequencer.drain.protocol
from sequencer.drain.batch import BatchSize
from sequencer.drain.held import Held
from tests.support.examples import examples
from tests.support.machine import ConsumersMachine
from tests.support.model.shard import ModelShard
from tests.support.simulated_consumer import SimConsumer

SETTINGS = settings(
    max_examples=examples(300),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
SEARCH = settings(SETTINGS, max_examples=1500, phases=[Phase.generate], derandomize=True, database=None)


@pytest.fixture(autouse=True)
def _begin_with_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs here are too short for a batch to grow by itself."""
    monkeypatch.setattr(sequencer.drain.protocol, "BatchSize", partial(BatchSize, messages=8))


@pytest.mark.slow
def test_the_protocol_keeps_order_exclusion_and_every_message() -> None:
    run_state_machine_as_test(ConsumersMachine, settings=SETTINGS)


class LongBatches(BatchSize):
    """A group that is due alone always gives more than others, of which each is asked for."""

    def learn(self, handled: int, elapsed_s: float, *, is_alone: bool = False) -> None:
        self.messages, self.alone, self.is_slow = 1, 8, True


@pytest.mark.slow
def test_the_protocol_keeps_them_too_where_it_asks_before_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencer.drain.protocol, "BatchSize", partial(LongBatches, alone=8, is_slow=True))
    run_state_machine_as_test(ConsumersMachine, settings=SETTINGS)


class AckWithoutToken(ModelShard):
    """An ack is taken from anybody whose lease was ever valid."""

    def holds(self, group: str, token: str) -> bool:
        return group in self.leases


class ClaimOfLeased(ModelShard):
    """A claim hands out groups that are leased."""

    def due(self) -> list[str]:
        return sorted(group for group, at in self.schedule.items() if at != float("inf"))


class OrderByArrival(ModelShard):
    """The score is ignored."""

    def members(self, group: str) -> list[str]:
        return sorted(self.orders.get(group, {}))


class ForgetfulAppend(ModelShard):
    """An append to a group that is leased does not put it into the schedule, and release trusts that."""

    def ack(self, *args: str) -> list[int]:
        stale = super().ack(*args)
        for group in [g for g in self.schedule if g not in self.leases and len(self.orders[g]) > 2]:
            for table in (self.orders, self.bodies, self.schedule, self.failures):
                table.pop(group, None)
        return stale


class IgnoresTime(ModelShard):
    """A delayed message is handed out at once."""

    def opens_at(self, member: str, score: float, record: str, mark: str) -> float:
        return 0.0 if record[20] in "DT" else super().opens_at(member, score, record, mark)


class IgnoresWindow(ModelShard):
    """Stragglers are not waited for."""

    def opens_at(self, member: str, score: float, record: str, mark: str) -> float:
        return 0.0 if self.policy["window_us"] != "0" else super().opens_at(member, score, record, mark)


class IgnoresGaps(ModelShard):
    """The next number is handed out though one before it is missing."""

    def opens_at(self, member: str, score: float, record: str, mark: str) -> float:
        return super().opens_at(member, -1.0, record, mark)


class IgnoresPause(ModelShard):
    """A paused group goes on."""

    def pause(self, *args: str) -> int:
        self.paused.clear()
        self.is_paused = False
        return 0


class ForgetsMarks(ModelShard):
    """No watermark outlives its group."""

    def mark(self, group: str) -> str:
        return super().mark(group) if group in self.orders else ""

    def drop_empty(self) -> None:
        for group in [group for group, order in self.orders.items() if not order]:
            self.marks.new.pop(group, None)
        super().drop_empty()

    def pass_mark(self, marks: dict[str, str]) -> None:
        super().pass_mark({group: mark for group, mark in marks.items() if self.orders.get(group)})


class RedrivesToTheEnd(ModelShard):
    """A redriven message goes behind those that wait, as a new arrival."""

    def redrive(self, _from: str, words: str, ledger: str) -> bytes:
        for letter in json.loads(words)[::2]:
            score, record = self.letters.pop(letter, (0.0, ""))
            if record:
                self.letters[letter] = score + 10, record
        return super().redrive(_from, words, ledger)


class CancelsWhatRuns(ModelShard):
    """A message is cancelled under its consumer's hands."""

    def update(self, *args: str) -> bytes:
        leases, self.leases = self.leases, {}
        done = super().update(*args)
        self.leases = {group: lease for group, lease in leases.items() if group in self.schedule}
        return done


BROKEN_SHARDS = [
    *(AckWithoutToken, ClaimOfLeased, OrderByArrival, ForgetfulAppend, IgnoresTime, IgnoresWindow, IgnoresGaps),
    *(IgnoresPause, ForgetsMarks, RedrivesToTheEnd, CancelsWhatRuns),
]


@pytest.mark.nightly
@pytest.mark.parametrize("shard", BROKEN_SHARDS)
def test_a_broken_shard_is_caught(shard: type[ModelShard]) -> None:
    machine = type("Control", (ConsumersMachine,), {"shard_class": shard})
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(machine, settings=SEARCH)


def broken_consumer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Break one rule of the consumer's side."""
    if name == "never looks whether its lease still holds":
        monkeypatch.setattr(Held, "deadline", property(lambda self: float("inf"), lambda self, value: None))
    elif name == "goes on behind a failed head":

        def resume(self: SimConsumer, answer: Any, error: Exception | None = None) -> None:
            original(self, None if isinstance(answer, Exception) else answer, error)

        original = SimConsumer.resume
        monkeypatch.setattr(SimConsumer, "resume", resume)
    elif name == "acknowledges what it has not handled":
        settle = Held.settle

        def eager(self: Held, **kind: bool) -> None:
            for group in self.groups:
                if group.is_open:
                    group.done = len(group.leased.members)
            settle(self, **kind)

        monkeypatch.setattr(Held, "settle", eager)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    [
        "never looks whether its lease still holds",
        "goes on behind a failed head",
        "acknowledges what it has not handled",
    ],
)
def test_a_broken_consumer_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    broken_consumer(monkeypatch, name)
    with pytest.raises((AssertionError, IndexError)):
        run_state_machine_as_test(ConsumersMachine, settings=SEARCH)
