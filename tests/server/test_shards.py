"""A queue of several shards: one queue to its users, and counted honestly where a chunk spans shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from sequencer.calls.claim import Claimed, claim
from sequencer.drain.effects import SettleAndClaim, Wait
from sequencer.drain.held import Held
from sequencer.drain.protocol import drain
from sequencer.drain.steps.runner import StepRunner
from sequencer.errors import BatchRefused, ConfigurationError
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits, ConsumerOptions, QueueOptions
from sequencer.store.group import shard_of
from sequencer.store.keys import shard_keys
from tests.support.handling import Make

from ..support.refused import refused


def test_many_shards_share_one_queue(make: Make) -> None:
    seq = make("wide", shards=4)
    receipt = seq.append_many({"body": n, "group": n % 40, "score": n} for n in range(2000))
    assert receipt.appended == 2000
    assert seq.info().backlog == 2000
    seen: dict[tuple[str, ...], list[int]] = {}
    seq.consume(lambda message: seen.setdefault(message.group, []).append(message.body), until_empty=True)
    assert len(seen) == 40
    assert all(bodies == sorted(bodies) for bodies in seen.values())
    assert sum(map(len, seen.values())) == 2000
    assert make("wide").append(1, group="x").duplicate is False


def test_of_a_chunk_with_a_conflict_the_other_shards_store_their_part(make: Make) -> None:
    seq = make("wide", shards=4)
    seq.append("old", group=5, id="5")
    items = [{"body": "new", "group": n, "id": str(n)} for n in range(20)]
    others = [n for n in range(20) if shard_of(str(n), 4) != shard_of("5", 4)]
    for stored in (len(others), 0):
        with refused(BatchRefused, "batch_refused", stored=stored) as caught:
            seq.append_many(items)
        assert [(one.index, one.error.id) for one in caught.value.refused] == [(5, "5")]
        assert sorted(int(one.group[0]) for one in seq.groups()) == sorted([5, *others])
    assert seq.append_many(items, on_refused="skip").appended == 19 - len(others)


def test_a_wrong_number_of_shards_is_said_every_time(make: Make) -> None:
    make("wide", shards=4).append(1, group="g")
    wrong = make("wide", shards=2)
    calls: list[Callable[[], object]] = [partial(wrong.append, 1, group="g"), wrong.info, wrong.claim, wrong.connect]
    for call in calls:
        with refused(ConfigurationError, "option_fixed", name="shards", before=4, value=2):
            call()


@pytest.mark.parametrize(("claims_next", "hints"), [(0, 0), (1, 1), (None, 1)])
def test_whoever_is_idle_is_told_of_a_group_given_back_unless_its_own_shard_is_claimed_next(
    make: Make, link: Link, namespace: str, claims_next: int | None, hints: int
) -> None:
    seq, shards = make("wide", shards=2), [shard_keys(namespace, "wide", shard) for shard in range(2)]
    group = next(str(n) for n in range(100) if shard_of(str(n), 2) == 0)
    seq.append(1, group=group)
    held = Held(shards, 60.0)
    held.take(0, link.run_one(claim(shards[0], "wide", "me", 60.0, ClaimLimits())).groups, 0.0, 0.0)
    link.command("DEL", shards[0].dispatch)
    held.settle(everything=True)
    sending = held.outgoing(claims_next=claims_next)
    assert sending
    link.run(sending.calls)
    assert link.command("LLEN", shards[0].dispatch) == hints


def test_the_shard_of_a_hint_is_claimed_from_first() -> None:
    held, now = Held([shard_keys("n", "q", shard) for shard in range(5)], 60.0), partial(float, 0)
    effects = drain(StepRunner(held, QueueOptions(queue="q"), None, "me", now, now, now), ConsumerOptions())
    effect = next(effects)
    while isinstance(effect, SettleAndClaim):
        effect = effects.send(Claimed([]))
    assert isinstance(effect, Wait)
    claims = [effects.send(3), effects.send(Claimed([]))]
    assert [claim.shard for claim in claims if isinstance(claim, SettleAndClaim)] == [3, 4]
