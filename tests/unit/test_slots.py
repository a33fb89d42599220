"""Worker slots against the model of a shard, beside a consumer with one slot; and controls that must fail."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

import sequencer.drain.protocol
from sequencer.calls.append import append
from sequencer.calls.call import Call
from sequencer.drain.batch import BatchSize
from sequencer.drain.effects import Flush, SettleAndClaim, Wait
from sequencer.drain.slots import NOTHING, SLICE_S, SLOW_S, SUSPECTS_AGAIN_S, Answers, Shard, Slot, Slots, Trip
from sequencer.errors import ServerUnavailable
from sequencer.settings.options import ClaimLimits
from sequencer.settings.pace import ACK_AFTER_S, IDLE_S, RELEASE_S
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys

from ..support.machine import ConsumersMachine
from ..support.model.shard import ModelShard
from ..support.shard_link import KEYS
from ..support.simulated_slots import COUNT, SimSlots
from .test_drain import SEARCH, SETTINGS

NIGHT = settings(SEARCH, max_examples=3000)


@pytest.fixture(autouse=True)
def _begin_with_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencer.drain.protocol, "BatchSize", partial(BatchSize, messages=8))


class SlotsMachine(ConsumersMachine):
    """The first consumer is a process with slots."""

    is_ending = False

    def new_consumer(self) -> Any:
        one = super().new_consumer()
        return one if self.names % 2 == 0 else SimSlots(self, one.name)

    @rule(turn=st.integers(0, COUNT - 1), which=st.integers(0, 1))
    def turn(self, turn: int, which: int) -> None:
        if isinstance(one := self.consumers[which], SimSlots):
            one.turn = turn

    @rule(which=st.integers(0, 1))
    def succeed(self, which: int) -> None:
        for turn in range(COUNT) if self.is_ending else ():
            self.turn(turn, which)
            super().succeed(which)
        super().succeed(which)

    def teardown(self) -> None:
        self.is_ending = True
        super().teardown()


@pytest.mark.slow
def test_slots_keep_order_exclusion_and_every_message() -> None:
    run_state_machine_as_test(SlotsMachine, settings=SETTINGS)


@pytest.mark.nightly
def test_a_group_that_is_given_to_two_slots_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def claimed(self: Slots, shard: Any, claimed: Any, trip: Any, now: float) -> Any:
        return give(self, shard, replace(claimed, groups=[*claimed.groups, *claimed.groups]), trip, now)

    give = Slots._claimed
    monkeypatch.setattr(Slots, "_claimed", claimed)
    with pytest.raises((AssertionError, KeyError, IndexError)):
        run_state_machine_as_test(SlotsMachine, settings=SEARCH)


class Process:
    """Slots without generators, over the model of a shard."""

    def __init__(self, count: int, *, is_patient: bool = True, **options: Any) -> None:
        self.shard, self.now = ModelShard(), 1000.0
        given: Any = {"max_attempts": 5, "is_patient": is_patient, "clock": lambda: self.now, **options}
        self.slots = Slots([KEYS], "q", "me", 9.0, **given)
        self.all = [self.slots.new() for _ in range(count)]

    def append(self, group: str, *names: str) -> None:
        items = [Item(group, name, "", b"[1]") for name in names]
        self.at_time(append(KEYS, items))

    def at_time(self, call: Call[Any]) -> Any:
        self.shard.now_us = round(self.now * 1e6)
        return self.shard.run(call)

    def claims(self, *slots: Slot) -> None:
        for slot in slots or self.all:
            self.slots.ask(slot, SettleAndClaim(0, ClaimLimits(1, 4, 9999)))

    def trip(self) -> tuple[list[str], Answers]:
        """The scripts of one, and what it answers."""
        ready, trip = self.slots.ready(self.now), self.set_out()
        if trip is None:
            return [], ready
        return [call.script for call in trip.calls], ready + self.end(trip)

    def hint(self) -> None:
        self.slots.hinted(self.asked, self.now)

    def set_out(self) -> Trip | None:
        return self.slots.trip(self.asked, self.now)

    def end(self, trip: Trip) -> Answers:
        results = [self.at_time(call) for call in trip.calls]
        return self.slots.answered(self.asked, results, self.now)

    @property
    def asked(self) -> Shard:
        return self.slots.shards[0]

    @property
    def due_at(self) -> float:
        return self.due_at_time(self.now)

    def due_at_time(self, now: float) -> float:
        return self.slots.due_at(self.asked, now, self.slots.shares(now))


def test_one_claim_serves_all_that_ask() -> None:
    one = Process(3)
    for group in "abcd":
        one.append(group, "m")
    one.claims()
    assert [len(answers) for _, answers in (one.trip(), one.trip())] == [2, 1]  # a claim takes half of what is due
    assert [slot.held.groups[0].leased.key for slot in one.all] == ["a", "b", "c"]


def test_what_all_slots_ask_is_merged_into_few_scripts() -> None:
    one, scripts, handled = Process(64), list[str](), 0
    for group in range(64):
        one.append(f"g{group}", *(f"m{n}" for n in range(8)))
    one.claims()
    while handled < 64 * 8:
        some, answers = one.trip()
        scripts += some
        for slot, claimed in answers:
            slot.held.begin(0)
            for _ in claimed.groups[0].messages:
                finish(slot)
                handled += 1
            one.claims(slot)
    assert len(scripts) <= 0.05 * handled


def test_who_waits_is_woken_for_a_group_only() -> None:
    one = Process(3)
    one.claims()
    assert one.trip() == (["claim"], [])
    assert one.trip() == ([], [])
    assert one.due_at == one.now + IDLE_S
    one.append("a", "m")
    one.hint()
    scripts, answers = one.trip()
    assert scripts == ["claim"]
    assert [slot for slot, _ in answers] == one.all[:1]
    one.slots.is_ending = True
    assert one.slots.ready(one.now) == [(slot, NOTHING) for slot in one.all[1:]]


def test_a_hint_that_comes_while_a_claim_is_out_is_not_forgotten() -> None:
    one = Process(1)
    one.claims()
    one.trip()
    one.slots.ask(one.all[0], Wait(5.0, 0, ClaimLimits(1, 4, 9999)))
    one.hint()
    trip = one.set_out()
    assert trip
    results = [one.at_time(call) for call in trip.calls]
    one.append("a", "m")
    one.hint()
    assert one.slots.answered(one.asked, results, one.now) == []
    assert [slot for slot, _ in one.trip()[1]] == one.all


def test_what_a_lost_trip_told_is_told_again_before_what_came_meanwhile() -> None:
    one = Process(2)
    one.append("a", "m")
    one.append("b", "m")
    one.claims()
    one.trip(), one.trip()
    first, second = one.all
    finish(first)
    one.claims(first)
    trip = one.set_out()
    assert trip
    finish(second)
    one.claims(second)
    assert one.slots.lost(one.asked, ServerUnavailable("lost")) == []
    trip = one.set_out()
    assert trip
    assert [entry.group for entry in trip.sending.acks] == ["a", "b"]  # type: ignore[union-attr]


def test_a_refusal_is_told_the_slot_that_holds_the_group() -> None:
    one = Process(2)
    for group in "abcd":
        one.append(group, "m", "n")
    one.claims()
    one.trip()
    _, second = one.all
    finish(second)
    one.shard.leases[second.held.groups[0].leased.key] = "f" * 16 + "0other"
    one.slots.ask(second, Flush(is_awaited=True))
    one.trip()
    assert [slot.held.groups[0].is_lost for slot in one.all] == [False, True]


def test_leases_are_renewed_in_one_call_at_a_third_of_their_time() -> None:
    one = Process(2)
    for group in "abcd":
        one.append(group, "m")
    one.claims()
    one.trip()
    at = one.due_at_time(one.now + RELEASE_S)
    for slot in one.all:
        slot.held.begin(0)
    one.now += RELEASE_S
    one.trip()
    assert at <= one.due_at == 1000.0 + 3.0
    one.now = 1003.0
    assert one.trip()[0] == ["renew"]
    assert {slot.held.deadline for slot in one.all} == {1003.0 + 9.0}


def test_an_ack_does_not_wait_for_the_next_handler() -> None:
    one = Process(1)
    one.append("a", "m", "n")
    one.claims()
    one.trip()
    (slot,) = one.all
    slot.held.begin(0)
    finish(slot)
    one.slots.begins(slot)
    assert one.trip() == ([], [])
    one.now += ACK_AFTER_S
    assert one.trip()[0] == ["ack"]
    assert one.shard.members("a")[0].endswith("n")


def test_a_group_that_nobody_begins_is_released() -> None:
    one = Process(1)
    one.append("a", "m")
    one.claims()
    one.trip()
    one.now += RELEASE_S
    assert one.trip()[0] == ["ack"]
    assert not one.shard.leases
    assert one.all[0].held.begin(0) is False


def test_after_a_death_few_suspects_are_taken_beside_healthy_groups() -> None:
    dead = Process(8)
    for n in range(8):
        dead.append(f"g{n}", "m")
    dead.claims()
    dead.trip(), dead.trip(), dead.trip(), dead.trip()
    assert len(dead.shard.leases) == 8
    one = Process(6)
    one.shard, one.now = dead.shard, dead.now + 10
    one.append("healthy", "m")
    one.claims()
    for _ in range(6):
        one.trip()
        one.now += SUSPECTS_AGAIN_S
    taken = [slot.held.groups[0].leased for slot in one.all if slot.held.groups]
    assert [bool(leased.expired_owner) for leased in taken].count(True) == 1
    assert "healthy" in [leased.key for leased in taken]


def test_nothing_is_claimed_for_slots_that_take_no_answer() -> None:
    one = Process(3)
    one.claims(one.all[0])
    for slot in one.all[1:]:
        one.slots.ask(slot, Wait(5.0, 0, ClaimLimits(1, 4, 9999)))
    one.append("a", "m")
    one.trip()
    one.now += RELEASE_S
    one.hint()
    assert one.trip()[0] == ["ack"], "it is released, and no other slot gets it"
    assert not one.slots.listens(one.asked)
    assert one.due_at > one.now
    one.claims(one.all[0])  # it has come to its answer
    assert one.trip()[0] == ["claim"]


def test_messages_are_counted_over_all_slots() -> None:
    one = Process(4, max_messages=3)
    for group in "abcdefgh":
        one.append(group, "m", "n")
    one.claims()
    taken: list[Slot] = []
    while answers := one.trip()[1]:
        taken += [slot for slot, _ in answers]
    assert sum(len(slot.held.groups[0].leased.messages) for slot in taken) == 3
    assert one.due_at > one.now, "nobody asks in vain"
    for slot in taken:
        slot.held.begin(0)
        for _ in slot.held.groups[0].leased.messages:
            finish(slot)
        one.claims(slot)
    one.trip()
    assert one.slots.is_spent
    one.slots.is_ending = True
    assert all(answer.was_ahead and not answer.groups for _, answer in one.trip()[1])


def test_a_stuck_slot_has_its_lease_renewed_once_more_and_alone() -> None:
    one, told = Process(2), list[str]()
    for group in "abcd":
        one.append(group, "m")
    one.claims()
    one.trip()
    first = one.all[0]
    for slot in one.all:
        slot.held.begin(0)
    first.held.running_since = one.now
    one.slots.stuck(first, one.now)
    assert one.trip()[0] == ["renew"]
    assert [lease[16] for lease in one.shard.leases.values()] == ["1", "0"]
    assert one.slots.take_events()[3] == [first]
    one.now += 4.0
    told += one.trip()[0]
    assert told == ["renew"]
    assert [slot.held.deadline for slot in one.all] == [1000.0 + 9.0, 1004.0 + 9.0]


def test_what_is_planned_for_a_slot_ends_with_its_group() -> None:
    one = Process(1)
    for n in range(50):
        one.append(f"g{n}", "m")
    for _ in range(50):
        one.claims()
        one.trip()
        one.all[0].held.begin(0)
        finish(one.all[0])
        one.slots.begins(one.all[0])
    assert [len(planned) for planned in one.asked.planned] == [1, 1, 1]


def finish(slot: Slot) -> None:
    slot.held.finish(slot.held.groups[0], 0.0, 0.0)


def test_a_refusal_by_one_shard_is_told_a_slot_that_claims_from_another() -> None:
    shards = [ModelShard(), ModelShard()]
    slots = Slots([KEYS, KEYS], "q", "me", 9.0, max_attempts=5, is_patient=True, clock=lambda: 1000.0)
    one = slots.new()

    def trip() -> None:
        trips = [(shard, slots.trip(shard, 1000.0)) for shard in slots.shards]
        for shard, trip in trips:
            if trip:
                slots.answered(shard, [shards[shard.number].run(call) for call in trip.calls], 1000.0)

    shards[1].run(append(KEYS, [Item("a", "m", "", b"[1]")]))
    slots.ask(one, SettleAndClaim(1, ClaimLimits(1, 4, 9999)))
    trip()  # shard by shard
    trip()
    finish(one)
    shards[1].leases["a"] = "f" * 16 + "0other"
    slots.ask(one, SettleAndClaim(0, ClaimLimits(1, 4, 9999)))
    trip()
    assert [group for group, _, _ in slots.refusals] == ["a"]
    assert one.held.lost == 1


# -- shards on several nodes ------------------------------------------------------------------------------------------


class Apart:
    """Slots over shards on several nodes: each has a trip that is out until it is said how it ends."""

    def __init__(self, count: int, shards: int = 3, **options: Any) -> None:
        self.shards, self.now = [ModelShard() for _ in range(shards)], 1000.0
        keys = [shard_keys("n", "q", shard) for shard in range(shards)]
        given: Any = {"max_attempts": 5, "is_patient": True, "clock": lambda: self.now, "are_apart": True, **options}
        self.slots = Slots(keys, "q", "me", 9.0, **given)
        self.all = [self.slots.new() for _ in range(count)]

    def append(self, shard: int, *groups: str) -> None:
        self.run(shard, append(self.slots.acks[shard].keys, [Item(group, "m", "", b"[1]") for group in groups]))

    def run(self, shard: int, call: Call[Any]) -> Any:
        self.shards[shard].now_us = round(self.now * 1e6)
        return self.shards[shard].run(call)

    def ask(self, slot: Slot) -> None:
        self.slots.ask(slot, SettleAndClaim(0, ClaimLimits(1, 4, 9999)))

    def set_out(self, *shards: int) -> list[list[str]]:
        """The scripts of the trip that sets out for each of these shards; none where there is nothing to ask."""
        trips = [self.slots.trip(self.slots.shards[shard], self.now) for shard in shards]
        return [[call.script for call in trip.calls] if trip else [] for trip in trips]

    def end(self, shard: int) -> Answers:
        asked = self.slots.shards[shard]
        assert asked.out
        return self.slots.answered(asked, [self.run(shard, call) for call in asked.out.calls], self.now)

    def settle_down(self) -> Answers:
        """Trips until nobody wants one."""
        answers: Answers = []
        for _ in range(20):
            for shard in range(len(self.shards)):
                answers += self.end(shard) if self.set_out(shard) != [[]] else []
        return answers


def test_a_silent_shard_holds_a_slot_for_a_moment_and_once() -> None:
    one = Apart(1)
    for shard in range(3):
        one.append(shard, f"g{shard}")
    one.ask(one.all[0])
    assert one.set_out(0, 1, 2) == [["claim"], [], []], "one slot, one claim"
    one.now += SLOW_S
    assert one.set_out(1) == [["claim"]]
    assert [slot.held.shard for slot, _ in one.end(1)] == [1]
    finish(one.all[0])
    one.ask(one.all[0])
    assert one.set_out(1, 2)[1] == ["claim"], "the silent one is not waited for again"


def test_groups_that_come_late_are_released_if_nobody_is_free() -> None:
    one = Apart(1)
    one.append(0, "late")
    one.append(1, "soon")
    one.ask(one.all[0])
    one.set_out(0)
    one.now += SLOW_S
    one.set_out(1)
    one.end(1)
    assert one.end(0) == []
    assert one.set_out(0) == [["ack"]]
    one.end(0)
    assert not one.shards[0].leases
    assert one.all[0].held.groups[0].leased.key == "soon"


def test_a_shard_that_is_away_is_asked_besides_and_leaves_slots_to_others() -> None:
    one = Apart(1)
    one.append(1, "g")
    one.ask(one.all[0])
    one.set_out(0)
    assert one.slots.lost(one.slots.shards[0], ServerUnavailable("away")) == [], "it goes on asking"
    assert one.set_out(0, 1) == [["claim"], ["claim"]]
    assert [slot.held.shard for slot, _ in one.end(1)] == [1]


def test_leases_are_renewed_while_another_shard_is_silent() -> None:
    one = Apart(2)
    one.append(0, "a")
    one.append(1, "b")
    for slot in one.all:
        one.ask(slot)
    one.settle_down()
    for slot in one.all:
        slot.held.begin(0)
    one.slots.stuck(next(slot for slot in one.all if slot.held.shard == 0), one.now)
    one.now += 3.0
    assert one.set_out(0, 1) == [["renew"], ["renew"]]
    one.end(1)
    assert {slot.held.shard: slot.held.deadline for slot in one.all} == {0: 1009.0, 1: 1012.0}


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_renewal_that_is_answered_late_says_nothing_of_the_next_group(
    monkeypatch: pytest.MonkeyPatch, is_checked: bool
) -> None:
    """The lease of that counts from its claim, which may have set out before the renewal."""
    if not is_checked:  # a control
        monkeypatch.setattr(Slots, "_works_on", lambda self, shard, slot: bool(slot.leases))
    one = Apart(1)
    one.append(0, "a")
    one.append(1, "b")
    one.ask(one.all[0])
    one.set_out(0)
    one.now += SLOW_S
    one.set_out(1)
    one.end(0)
    one.all[0].held.begin(0)
    one.now += 3.0
    assert one.set_out(0) == [["renew"]]
    finish(one.all[0])
    one.ask(one.all[0])
    assert len(one.end(1)) == 1
    with nullcontext() if is_checked else pytest.raises(AssertionError):
        one.end(0)
        assert one.all[0].held.deadline == 1000.0 + SLOW_S + 9.0


def test_a_slot_hears_that_nothing_is_due_once_all_shards_said_so() -> None:
    one = Apart(1, is_patient=False)
    one.ask(one.all[0])
    assert one.set_out(0)
    assert one.end(0) == []
    assert one.set_out(1)
    assert one.end(1) == []
    assert one.set_out(2)
    ((slot, claimed),) = one.end(2)
    assert (slot, claimed.groups, claimed.is_empty) == (one.all[0], [], True)
    one.ask(slot)
    assert one.set_out(0) == [["claim"]], "what ends by itself asks again"


def test_a_hint_is_for_its_shard_and_of_use_while_a_slot_is_free() -> None:
    one = Apart(1)
    one.ask(one.all[0])
    one.settle_down()
    one.slots.ask(one.all[0], Wait(5.0, 0, ClaimLimits(1, 4, 9999)))
    first, second = one.slots.shards[:2]
    assert one.slots.listens(second)
    one.append(1, "g")
    assert one.slots.hinted(second, one.now)
    assert one.set_out(0, 1, 2) == [[], ["claim"], []]
    one.end(1)
    assert one.slots.listens(first), "also while no slot is free"
    assert not one.slots.hinted(first, one.now), "another consumer may use it"
    assert not one.slots.listens(first), "it is known"
    finish(one.all[0])
    one.ask(one.all[0])
    assert one.set_out(0, 1) == [[], ["ack", "claim"]], "in one trip"
    one.now += SLICE_S
    one.end(1)
    assert one.set_out(0) == [["claim"]]


def test_a_hint_is_kept_for_a_slot_that_no_later_one_takes() -> None:
    one = Apart(1)
    one.ask(one.all[0])
    one.settle_down()
    first, second = one.slots.shards[:2]
    assert one.slots.hinted(second, one.now)
    one.now += 0.001
    assert not one.slots.hinted(first, one.now), "the only slot is for the earlier one"
    assert one.set_out(0, 1) == [[], ["claim"]]


def test_messages_are_counted_over_all_shards() -> None:
    one = Apart(3, max_messages=2)
    for shard in range(3):
        one.append(shard, "a", "b", "c", "d")
    for slot in one.all:
        one.ask(slot)
    taken = one.settle_down()
    assert len(taken) == 2
    assert sum(len(shard.leases) for shard in one.shards) == 2
