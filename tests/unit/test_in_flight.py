"""What is in flight on a consumer's link: told again, released, forgotten, or lost at the worst moment."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sequencer.calls.append import append
from sequencer.calls.call import UNDONE
from sequencer.calls.claim import claim
from sequencer.drain.effects import Ahead, SettleAndClaim
from sequencer.drain.held import Held
from sequencer.errors import DataError, ServerUnavailable
from sequencer.settings.options import ClaimLimits
from sequencer.settings.pace import AHEAD_S, OVERDUE_S, RELEASE_S
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
def begun(link: Any, held: Held) -> OneLink:
    """Has "a" in progress, and a claim is on its way."""
    begun = OneLink(link, held)
    begun.settle_and_claim(SettleAndClaim(0, ONE))
    begun.ahead(Ahead(0, ONE))
    return begun


@pytest.fixture
def one(begun: OneLink, held: Held) -> OneLink:
    """Has handled "a", too."""
    held.begin(0)
    held.finish(held.groups[0], 0.0, 0.0)
    return begun


def test_an_acknowledgement_whose_answer_is_lost_is_told_again(shard: ModelShard, link: Any, one: OneLink) -> None:
    """It was not waited for: what was claimed ahead is worked on meanwhile."""
    link.left = 1
    claimed = one.settle_and_claim(SettleAndClaim(0, ONE))
    assert claimed is not None
    assert [group.key for group in claimed.groups] == ["b"]
    with pytest.raises(ServerUnavailable):
        one.settle_and_claim(SettleAndClaim(None))
    assert shard.leases.keys() == {"b"}
    one.settle_and_claim(SettleAndClaim(None))
    assert list(shard.orders) == ["b"]
    assert not shard.leases


@pytest.mark.parametrize("is_answered", [True, False])
def test_what_was_claimed_before_the_connection_was_lost_is_given_back(
    shard: ModelShard, link: Any, one: OneLink, is_answered: bool
) -> None:
    """The server may be another one by now, without the lease; and if it is not, nobody is to wait for its end."""
    if is_answered:
        one.collect_all()
    link.is_lost = True
    with pytest.raises(ServerUnavailable):
        one.settle_and_claim(SettleAndClaim(0, ONE))
    assert one.ahead_since is None
    assert shard.leases.keys() == {"a", "b"}
    link.is_lost = False
    one.settle_and_claim(SettleAndClaim(None))
    assert list(shard.orders) == ["b"]
    assert not shard.leases


@pytest.fixture
def pair(shard: ModelShard, link: Any) -> OneLink:
    """Has handled the first of two messages of "a", and a claim is on its way."""
    shard.run(append(KEYS, [Item("a", "j", "2.0", b"[1]")]))
    one = OneLink(link)
    one.settle_and_claim(SettleAndClaim(0, ClaimLimits(1, 4, 1000)))
    one.ahead(Ahead(0, ONE))
    handle_next(one)
    return one


def handle_next(one: OneLink) -> None:
    held: Held = one.held
    held.begin(0)
    held.finish(held.groups[0], 0.0, 0.0)
    held.settle()


@pytest.mark.parametrize("is_slow", [True, False])
@pytest.mark.parametrize("is_flushed", [True, False])
def test_of_two_acknowledgements_of_a_group_the_second_is_not_carried_out_alone(
    shard: ModelShard, link: Any, pair: OneLink, is_slow: bool, is_flushed: bool
) -> None:
    """Else the group would be released with its first message in it, and that be handled after the second."""
    link.lacks_script, link.is_slow = True, is_slow
    pair.send_due(0.0)
    link.lacks_script = False
    handle_next(pair)
    if is_flushed:
        pair.send_due(0.0)
    pair.settle_and_claim(SettleAndClaim(0, ONE, ahead=True))
    pair.collect_all()
    assert list(shard.orders) == ["b"]
    assert pair.held.lost == 0


def test_a_claim_that_sets_out_takes_nothing_past_an_unanswered_acknowledgement(
    shard: ModelShard, link: Any, pair: OneLink
) -> None:
    """A failure ends the lease that an acknowledgement before it, if it is to be told again, still needs."""
    pair.release_claim()
    pair.settle_and_claim(SettleAndClaim(None))
    shard.run(append(KEYS, [Item("a", "k", "3.0", b"[1]"), Item("a", "l", "4.0", b"[1]")]))
    pair.settle_and_claim(SettleAndClaim(0, ClaimLimits(1, 4, 1000)))
    held: Held = pair.held
    group = next(group for group in held.groups if group.leased.key == "a")
    held.begin(0)
    held.finish(group, 0.0, 0.0)
    held.settle()
    link.lacks_script = True
    pair.send_due(0.0)
    link.lacks_script = False
    held.fail(group, failed(group, 1.0))
    pair.ahead(Ahead(0, ONE))
    pair.settle_and_claim(SettleAndClaim(None))
    pair.settle_and_claim(SettleAndClaim(None))
    assert [member[16:] for member in shard.members("a")] == ["k", "l"], "the one before them was handled"


def test_an_answer_that_never_comes_is_found_out_beside_a_long_handler(link: Any, pair: OneLink) -> None:
    pair.release_claim()
    link.is_slow, link.left = True, 0
    pair.send_due(0.0)
    sent_at = time.monotonic()
    pair.on_tick(sent_at + OVERDUE_S / 2)
    with pytest.raises(ServerUnavailable):
        pair.on_tick(sent_at + 2 * OVERDUE_S)
    link.left = -1
    pair.send_due(0.0)
    assert len(link.posted) == 1, "it is told again"


def test_a_refusal_does_not_take_what_was_claimed_behind_it(shard: ModelShard, link: Any, one: OneLink) -> None:
    """Nobody could have its groups before their leases end."""
    one.release_claim()
    one.settle_and_claim(SettleAndClaim(None))
    shard.run(append(KEYS, [Item(name, "k", "3.0", b"[1]") for name in "ac"]))
    one.settle_and_claim(SettleAndClaim(0, ONE))
    handle_next(one)
    one.ahead(Ahead(0, ONE))
    link.refuses = DataError("odd")
    assert one.settle_and_claim(SettleAndClaim(0, ONE, ahead=True)) is not None
    link.refuses = None
    assert len(shard.leases) == 3
    with pytest.raises(DataError, match="odd"):
        one.settle_and_claim(SettleAndClaim(0, ONE, ahead=True))
    assert one.ahead_since is None
    one.settle_and_claim(SettleAndClaim(None))
    assert not shard.leases
    assert sum(map(len, shard.orders.values())) == 2, "the acknowledgement was told again"


def test_groups_with_few_messages_come_before_those_with_many() -> None:
    """Else they would wait for a group that never ends."""
    shard = ModelShard()
    items = [Item("long", str(n), "1.0", b"[1]") for n in range(4)]
    shard.run(append(KEYS, [*items, Item("short", "i", "1.0", b"[1]"), Item("brief", "i", "1.0", b"[1]")]))
    held = Held([KEYS], 60.0)
    claimed = shard.run(claim(KEYS, "q", "me", 60.0, ClaimLimits(9, 9, 1000)))
    assert [group.key for group in claimed.groups] == ["brief", "long", "short"]
    held.take(0, claimed.groups, 0.0, 0.0)
    assert [group.leased.key for group in held.groups] == ["brief", "short", "long"]


class Interrupted(Link):
    """Ctrl-C comes just when an answer was taken from the connection."""

    hit, is_closed = -2, False

    def parsed(self, calls: Any, replies: list[Any]) -> list[Any]:
        self.hit -= 1
        if self.hit == -1:
            raise KeyboardInterrupt
        return replies

    def close(self) -> None:
        self.is_closed = True
        super().close()


@pytest.mark.parametrize("hit", [0, 1])
def test_an_interrupt_in_the_middle_gives_up_all_that_is_in_flight(shard: ModelShard, hit: int) -> None:
    """Else the next answer would be taken for another one; and nobody would tell again what was told."""
    link: Any = Interrupted(shard)
    one = OneLink(link)
    one.settle_and_claim(SettleAndClaim(0, ONE))
    one.ahead(Ahead(0, ONE))
    handle_next(one)
    link.lacks_script = True
    one.send_due(0.0)
    link.lacks_script = False
    link.hit = hit  # the claim's answer, or the acknowledgement's
    with pytest.raises(KeyboardInterrupt), one.in_one_piece():
        one.collect_all()
    assert link.is_closed
    assert one.ahead_since is None
    one.settle_and_claim(SettleAndClaim(None))
    assert list(shard.orders) == ["b"], "the acknowledgement was told again"


# -- a claim ahead ----------------------------------------------------------------------------------------------------


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
    shard: ModelShard, held: Held, begun: OneLink, handler_s: float, claimed_s: float, is_released: bool
) -> None:
    """Others could have begun with it by then."""
    sent_at = begun.ahead_since
    assert sent_at is not None
    now = sent_at + claimed_s
    held.running_since = now - handler_s
    begun.on_tick(now)
    begun.send_due(now)
    begun.collect_all()
    assert ("b" not in shard.leases) is is_released


def test_an_empty_claim_ahead_is_forgotten(shard: ModelShard, link: Any, begun: OneLink) -> None:
    """What is due by now is not in it."""
    begun.release_claim()
    begun.settle_and_claim(SettleAndClaim(None))
    shard.run(claim(KEYS, "q", "other", 60.0, ClaimLimits()))
    begun.ahead(Ahead(0, ONE))
    begun.collect_all()
    assert begun.ahead_since is None
    shard.run(append(KEYS, [Item("c", "i", "1.0", b"[1]")]))
    claimed = begun.settle_and_claim(SettleAndClaim(0, ONE))
    assert claimed
    assert [group.key for group in claimed.groups] == ["c"]


def test_the_lease_of_what_was_claimed_ahead_is_counted_from_before_its_claim_was_sent(
    held: Held, begun: OneLink
) -> None:
    sent_at = begun.ahead_since
    assert sent_at is not None
    assert begun.settle_and_claim(SettleAndClaim(0, ONE))
    assert held.deadline == sent_at + 60.0


def test_a_lease_found_lost_by_its_renewal_is_known_when_the_flush_is_over(
    shard: ModelShard, link: Any, held: Held, begun: OneLink
) -> None:
    """Else its next message would be begun."""
    link.is_slow = True
    shard.leases.clear()
    begun.send_due(time.monotonic() + 30.0)
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
        one.send_due(0.0)
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
