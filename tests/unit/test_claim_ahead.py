"""A claim on its way while a batch is handled: when it is released, forgotten, or does not set out at all."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sequencer.calls.append import append
from sequencer.calls.call import UNDONE
from sequencer.calls.claim import claim
from sequencer.drain.effects import Ahead, SettleAndClaim
from sequencer.drain.held import Held
from sequencer.errors import ServerUnavailable
from sequencer.settings.options import ClaimLimits
from sequencer.settings.pace import AHEAD_S, RELEASE_S
from sequencer.store.item import Item
from tests.support.model.shard import ModelShard
from tests.support.shard_link import KEYS, ONE, Link, OneLink

from ..support.handling import failed


@pytest.fixture
def shard() -> ModelShard:
    shard = ModelShard()
    shard.run(append(KEYS, [Item(name, "i", "1.0", b"[1]") for name in "ab"]))
    return shard


@pytest.fixture
def link(shard: ModelShard) -> Any:
    return Link(shard)


@pytest.fixture
def held() -> Held:
    return Held([KEYS], 60.0)


@pytest.fixture
def one(link: Any, held: Held) -> OneLink:
    """Has "a" in progress, and a claim is on its way."""
    one = OneLink(link, held)
    one.settle_and_claim(SettleAndClaim(0, ONE))
    one.ahead(Ahead(0, ONE))
    return one


@pytest.mark.parametrize(
    ("handler_s", "claimed_s", "is_released"),
    [
        (RELEASE_S * 0.9, RELEASE_S * 0.9, False),
        (RELEASE_S * 1.1, RELEASE_S * 1.1, True),
        (RELEASE_S * 0.5, RELEASE_S * 1.5, False),
        (RELEASE_S * 0.5, AHEAD_S * 1.1, True),
    ],
)
def test_what_was_claimed_ahead_is_given_back_beside_one_slow_handler_and_many_short_ones(
    shard: ModelShard, held: Held, one: OneLink, handler_s: float, claimed_s: float, is_released: bool
) -> None:
    """Others could have begun with it by then."""
    sent_at = one.ahead_since
    assert sent_at is not None
    now = sent_at + claimed_s
    held.running_since = now - handler_s
    one.on_tick(now)
    one.send_due(now)
    one.collect_all()
    assert ("b" not in shard.leases) is is_released


def test_an_empty_claim_ahead_is_forgotten(shard: ModelShard, link: Any, one: OneLink) -> None:
    """What is due by now is not in it."""
    one.release_claim()
    one.settle_and_claim(SettleAndClaim(None))
    shard.run(claim(KEYS, "q", "other", 60.0, ClaimLimits()))
    one.ahead(Ahead(0, ONE))
    one.collect_all()
    assert one.ahead_since is None
    shard.run(append(KEYS, [Item("c", "i", "1.0", b"[1]")]))
    claimed = one.settle_and_claim(SettleAndClaim(0, ONE))
    assert claimed
    assert [group.key for group in claimed.groups] == ["c"]


def test_a_claim_that_was_planned_does_not_set_out_after_an_exchange(link: Any, one: OneLink) -> None:
    """It was to bring what follows the batch that is over now."""
    one.settle_and_claim(SettleAndClaim(0, ONE))
    one.ahead(Ahead(0, ONE, 0.01))
    one.settle_and_claim(SettleAndClaim(0, ONE))
    one.on_tick(time.monotonic() + 1.0)
    assert one.ahead_since is None


def test_the_lease_of_what_was_claimed_ahead_is_counted_from_before_its_claim_was_sent(
    held: Held, one: OneLink
) -> None:
    sent_at = one.ahead_since
    assert sent_at is not None
    assert one.settle_and_claim(SettleAndClaim(0, ONE))
    assert held.deadline == sent_at + 60.0


def test_a_lease_found_lost_by_its_renewal_is_known_when_the_flush_is_over(
    shard: ModelShard, link: Any, held: Held, one: OneLink
) -> None:
    """Else its next message would be begun."""
    link.is_slow = True
    shard.leases.clear()
    one.send_due(time.monotonic() + 30.0)
    assert held.lost == 1


class Forgetful(Link):
    """Its server has lost the script of acknowledgements: they run behind the other calls, or not at all."""

    def run(self, calls: Any) -> list[Any]:
        acks_last = sorted(calls, key=lambda call: call.script == "ack")
        found = {id(call): self.shard.run(call) for call in acks_last}
        return [found[id(call)] for call in calls]

    def post(self, calls: Any) -> None:
        known = [call for call in calls if call.script != "ack"]
        found = {id(call): self.shard.run(call) for call in known}
        self.posted.append([found.get(id(call), UNDONE) for call in calls])


@pytest.mark.parametrize("is_ahead", [True, False])
def test_a_failure_does_not_overtake_the_acknowledgement_before_it(shard: ModelShard, is_ahead: bool) -> None:
    """It ends the lease, without which what was handled is not acknowledged, and handled again."""
    shard.run(append(KEYS, [Item("a", "j", "2.0", b"[1]")]))
    link: Any = Forgetful(shard)
    held = Held([KEYS], 60.0)
    one = OneLink(link, held)
    one.settle_and_claim(SettleAndClaim(0, ClaimLimits(1, 4, 1000)))
    if is_ahead:
        one.ahead(Ahead(0, ONE))
    held.begin(0)
    held.finish(held.groups[0], 0.0, 0.0)
    held.fail(held.groups[0], failed(held.groups[0], 9.0))
    one.settle_and_claim(SettleAndClaim(0, ONE))
    for _ in range(2):  # once more where something is left to be told, as `drain` does at its end
        one.settle_and_claim(SettleAndClaim(None))
    assert [member[16:] for member in shard.members("a")] == ["j"]
    assert shard.failures.keys() == {"a"}
    assert held.lost == 0


@pytest.mark.parametrize("is_posted", [True, False])
def test_a_failure_whose_acknowledgement_in_front_was_refused_is_told_behind_it(
    shard: ModelShard, link: Any, is_posted: bool
) -> None:
    """A generation that was pushed between the two, say. A nack ends the lease: what was handled would run again."""
    shard.run(append(KEYS, [Item("a", "j", "2.0", b"[1]")]))
    one = OneLink(link)
    one.settle_and_claim(SettleAndClaim(0, ClaimLimits(1, 4, 1000)))
    one.held.begin(0)
    one.held.finish(one.held.groups[0], 0.0, 0.0)
    one.held.fail(one.held.groups[0], failed(one.held.groups[0], 9.0))
    link.refuses = ServerUnavailable("another generation")
    if is_posted:
        one.send_due()
        with pytest.raises(ServerUnavailable):
            one.collect_all()
        assert [member[16:] for member in shard.members("a")] == ["i", "j"], "nothing was changed"
        assert shard.leases
        link.refuses = None
    for _ in range(2):  # once more where something is left to be told, as `drain` does at its end
        one.settle_and_claim(SettleAndClaim(None))
    assert [member[16:] for member in shard.members("a")] == ["j"]
    assert shard.failures.keys() == {"a"}
    assert not shard.leases
    assert one.held.refusals == []


class Twice(Link):
    """Sends again what may be repeated, as if the first answer had been lost."""

    is_repeat = True

    def run(self, calls: Any) -> list[Any]:
        for call in calls:
            if call.repeatable:
                self.shard.run(call)
        return super().run(calls)


def test_what_the_network_sent_twice_is_no_lost_lease(shard: ModelShard) -> None:
    link: Any = Twice(shard)
    held = Held([KEYS], 60.0)
    one = OneLink(link, held)
    one.settle_and_claim(SettleAndClaim(0, ONE))
    held.begin(0)
    held.finish(held.groups[0], 0.0, 0.0)
    one.settle_and_claim(SettleAndClaim(None))
    assert list(shard.orders) == ["b"]
    assert held.lost == 0
