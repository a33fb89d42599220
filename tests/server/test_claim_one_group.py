"""A claim of one named group: exactly that one, if it is due; and what it leaves to others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sequencer import Sequencer
from sequencer.calls.operate import pause
from sequencer.calls.outage import outage
from sequencer.errors import InvalidGroup
from sequencer.settings.policy import Policy

from ..support.shard import Shard, item


def test_it_takes_this_group_and_no_other(shard: Shard) -> None:
    shard.append(item("a", "1"), item("b", "1"), item("b", "2"), item("c", "1"))
    shard.later(1)
    hints = shard.hints()
    claimed = shard.claimed(only="b")
    assert [(group.key, len(group.messages)) for group in claimed.groups] == [("b", 2)]
    assert not claimed.has_more
    assert shard.hints() == hints, "they are of others too"
    assert sorted(shard.claim()) == ["a", "c"]


def test_one_that_is_not_due_leaves_the_hints_of_others(shard: Shard) -> None:
    shard.append(item("a", "1"), item("b", "1"))
    shard.forget_hints()
    assert shard.claim(only="b")
    assert not shard.claim(only="b")
    assert not shard.claim(only="nothing")
    assert shard.hints() == []
    shard.append(item("d", "1"))
    assert not shard.claimed(only="b").groups
    assert shard.hints() == ["d"]


def lease_it(shard: Shard) -> None:
    assert shard.claim(only="g")


def park_it(shard: Shard) -> None:
    assert shard.nack(shard.claim(only="g")["g"], None)


def pause_it(shard: Shard) -> None:
    shard.run(pause(shard.keys, "g", True, now_us=shard.now))


def skip_a_number(shard: Shard) -> None:
    shard.rules(Policy(sequence=True))
    shard.ack(shard.claim(only="g")["g"], mark="#1")
    shard.append(item("g", "3", "3"))


def hold_the_shard_back(shard: Shard) -> None:
    shard.link.command("HSET", shard.keys.policy, "probe_us", shard.now + 1_000_000)
    shard.link.command("HSET", shard.keys.outage, "opened_us", shard.now)


@pytest.mark.parametrize(
    "hinder",
    [lease_it, park_it, pause_it, skip_a_number, hold_the_shard_back],
    ids=lambda one: one.__name__,
)
def test_it_is_not_given_where_a_plain_claim_would_not_give_it(shard: Shard, hinder: Callable[[Shard], None]) -> None:
    shard.append(item("g", "1", "1"))
    hinder(shard)
    assert shard.claim(only="g") == {}
    assert shard.claim() == {}


def test_of_a_shard_that_is_held_back_it_is_the_probe_that_is_due(shard: Shard) -> None:
    """Else one that claims groups by name alone would never see the end of an outage."""
    shard.append(item("a", "1"), item("g", "1"), item("g", "2"))
    hold_the_shard_back(shard)
    shard.later(2)
    (group,) = shard.claimed(only="g").groups
    assert (group.key, len(group.messages), group.is_probe) == ("g", 1, True)
    assert shard.claim() == {}, "one probe at a time"
    shard.run(outage(shard.keys, "close", group.token, now_us=shard.now))


def test_an_expired_lease_counts_an_attempt(shard: Shard) -> None:
    shard.append(item("a", "1"), item("g", "1"), item("g", "2"))
    assert [message.attempt for message in shard.claim(only="g")["g"].messages] == [1, 1]
    shard.later(6)
    again = shard.claim(only="g")["g"]
    assert (again.expired_owner, [message.attempt for message in again.messages]) == ("me", [2])


def test_a_lease_of_one_group(make: Callable[..., Sequencer]) -> None:
    """Of a queue of several shards, and with the words of the public class."""
    seq = make(shards=4)
    seq.append_many({"group": [n, 1], "body": n} for n in range(20))
    for number in (7, 3):
        with seq.claim(group=[number, 1], messages=5) as lease:
            assert [message.body for message in lease] == [number]
            with seq.claim(group=(number, "1")) as other:
                assert not other
    assert not seq.claim(group="nobody")
    with pytest.raises(InvalidGroup):
        seq.claim(group=[])
