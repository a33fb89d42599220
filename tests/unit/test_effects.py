"""What the drain asks for, step by step, in virtual time: when it flushes, waits, looks again, and what it leaves."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import sequencer.drain.protocol
from sequencer.calls.claim import claim
from sequencer.calls.settle import Ack, ack
from sequencer.drain.batch import BatchSize
from sequencer.drain.effects import Flush, SettleAndClaim, Wait
from sequencer.drain.held import Held
from sequencer.errors import ServerUnavailable
from sequencer.settings.options import ClaimLimits, ConsumerOptions
from sequencer.settings.pace import ENDING_S, FLUSH_S
from sequencer.store.keys import shard_keys
from sequencer.values.message import Message
from tests.support.lone_consumer import KEYS, Drained

UNTIL_EMPTY = ConsumerOptions(until_empty=True)
LEASE_S = 60.0


@pytest.fixture(autouse=True)
def _begin_with_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequencer.drain.protocol, "BatchSize", partial(BatchSize, messages=8))


# -- leases ---------------------------------------------------------------------------------------------------------


class SlowFlush(Drained):
    """Its first flush is given up after the lease has ended."""

    def answer(self, effect: Any) -> Any:
        if isinstance(effect, Flush) and not any(isinstance(one, Flush) for one in self.asked[:-1]):
            self.now_s += LEASE_S + 1
            return ServerUnavailable("no answer")
        return super().answer(effect)


def test_nothing_is_begun_when_the_lease_ended_while_a_flush_was_not_answered() -> None:
    """That of a group's first message: of a later one the batch has lasted too long in any case."""
    one = SlowFlush(FLUSH_S + 0.001, UNTIL_EMPTY)
    for group in "abcd":  # a claim leaves half of them to others
        one.append(group, 0, 1)
    assert one.to_the_end().handled == 4
    assert any(isinstance(asked, Flush) for asked in one.asked)
    assert one.groups()[0] == ["a"]


class SlowClaim(Drained):
    """Its first claim is answered after the lease has ended, and the renewal that follows is lost."""

    def on_way_back(self, calls: Any) -> None:
        self.now_s += 0.0 if self.batches else LEASE_S + 1

    def answer(self, effect: Any) -> Any:
        if isinstance(effect, Flush) and len(self.batches) == 1:
            return ServerUnavailable("no answer")
        return super().answer(effect)


def test_nothing_is_begun_of_a_claim_that_was_answered_after_its_lease() -> None:
    """The lease is counted from before it was asked for: the server's has ended too."""
    one = SlowClaim(0.001, UNTIL_EMPTY)
    one.append("a", 0, 4)
    assert one.to_the_end().handled == 4
    assert not one.batches[0]


class Away(Drained):
    """After its first batch the server is away for longer than the lease; meanwhile another consumer does the work."""

    problem: Exception | None = None

    def handle(self, message: Message) -> BaseException | None:
        super().handle(message)
        return self.problem

    def answer(self, effect: Any) -> Any:
        if isinstance(effect, SettleAndClaim) and self.batches and self.now_s < 1000.0 + LEASE_S + 1:
            self.held.settle(everything=True)
            assert self.held.outgoing(), "it was sent"
            return ServerUnavailable("away")
        if self.batches and self.shard.orders:
            self.shard.now_us = round(self.now_s * 1e6)
            for group in self.shard.run(claim(KEYS, "q", "other", 60.0, ClaimLimits())).groups:
                self.shard.run(ack(KEYS, [Ack(group.key, group.token, group.members, True)]))
        return super().answer(effect)


@pytest.mark.parametrize("problem", [None, ValueError("no")])
def test_leases_that_end_while_the_server_is_away_count_as_lost(problem: Exception | None) -> None:
    """What it would have told of them is handled again by others, and nobody would know."""
    one = Away(0.001, UNTIL_EMPTY)
    one.problem = problem
    one.append("a", 0, 1)
    assert one.to_the_end().lost == 1
    assert one.groups() == [["a"]]


# -- acknowledgements -----------------------------------------------------------------------------------------------


class Counting(Drained):
    """Notes at each handler run how many were handled and are not acknowledged."""

    most = runs = 0

    def handle(self, message: Message) -> BaseException | None:
        pending = len(self.shard.orders[message.group[0]])
        self.most = max(self.most, self.runs + pending - 400)
        self.runs += 1
        return super().handle(message)


def test_acknowledgements_of_quick_handlers_are_sent_at_least_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside those that are too quick for the renewer: a consumer that is killed has few handled again."""
    monkeypatch.setattr(sequencer.drain.protocol, "BatchSize", partial(BatchSize, messages=400))
    one = Counting(0.0001, UNTIL_EMPTY)
    one.append("a", 0, 400)
    one.to_the_end()
    assert list(map(len, one.batches)) == [400]
    assert one.most <= FLUSH_S / 0.0001 + 1


class DeafAtTheEnd(Drained):
    """Stops in its first handler; the server is away for the first two attempts to say what was done."""

    deaf = 2

    def answer(self, effect: Any) -> Any:
        if isinstance(effect, SettleAndClaim) and effect.shard is None and self.deaf:
            self.deaf -= 1
            return ServerUnavailable("away")
        return super().answer(effect)

    def handle(self, message: Message) -> BaseException | None:
        self.runner.is_stopping = True
        return super().handle(message)


def test_a_consumer_that_stops_attempts_three_times_to_say_what_it_did() -> None:
    one = DeafAtTheEnd(0.001)
    one.append("a", 0, 1)
    assert one.to_the_end().reason == "stopped"
    assert not one.shard.orders


# -- how far a batch goes -------------------------------------------------------------------------------------------


class Undecided(Held):
    """The renewer is always just giving groups back: whether one is open shows under the lock."""

    def begin(self, index: int) -> bool | None:
        super().begin(index)
        return None


def test_a_group_that_the_renewer_left_is_handled() -> None:
    one = Drained(0.001, UNTIL_EMPTY)
    one.hold(Undecided([KEYS], LEASE_S))
    one.append("a", 0, 3)
    one.to_the_end()
    assert one.groups() == [["a"] * 3]


# -- looking and waiting --------------------------------------------------------------------------------------------


class Beside(Drained):
    """Another consumer holds a group, and is done with it half a second later."""

    others: list[Ack]
    ended_s = 1000.5

    def answer(self, effect: Any) -> Any:
        answer = super().answer(effect)
        if self.now_s >= self.ended_s and self.others:
            self.shard.run(ack(KEYS, [self.others.pop()]))
        return answer


def test_until_empty_ends_soon_after_the_others_have_finished() -> None:
    one = Beside(0.001, UNTIL_EMPTY)
    one.append("a", 0, 1)
    (group,) = one.shard.run(claim(KEYS, "q", "other", LEASE_S, ClaimLimits())).groups
    one.others = [Ack(group.key, group.token, group.members, True)]
    assert one.to_the_end().reason == "drained"
    assert one.ended_s <= one.now_s <= one.ended_s + ENDING_S


@pytest.mark.parametrize(("shards", "shard"), [(1, 0), (2, None)])
def test_a_wait_claims_one_group_and_only_where_a_hint_can_be_of_one_shard(shards: int, shard: int | None) -> None:
    """A hint tells nobody its shard. And of a consumer that is frozen by then no more waits for the end of its
    lease.
    """
    one = Drained(0.001)
    one.hold(Held([shard_keys("n", "q", number) for number in range(shards)], LEASE_S))
    one.run(lambda: bool(one.asked) and isinstance(one.asked[-1], Wait))
    assert (one.asked[-1].shard, one.asked[-1].limits.groups) == (shard, 1)
    assert one.asked[-1].limits.messages == 8
