"""Groups that a consumer has held for too long are named, with the process that holds them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys, shard_of


@pytest.mark.parametrize(("age_s", "is_named"), [(160, True), (120, False)])
def test_a_group_that_is_leased_for_more_than_ten_leases_is_named(
    seq: Sequencer, link: Link, namespace: str, age_s: int, is_named: bool
) -> None:
    """Its lease of 10 s was renewed just now, as by a consumer whose handler hangs."""
    keys = shard_keys(namespace, seq.queue, 0)
    seq.append(1, group=["order", 7], id="m1")
    with seq.claim(lease=10.0) as lease:
        (group,) = [name.decode() for name in link.command("HKEYS", keys.leases)]
        held = link.command("HGET", keys.leases, group)
        token = f"{int(held[:16]) - age_s * 1_000_000:016d}".encode()
        link.command("HSET", keys.leases, group, token + b"1shop.example:4711:00c0de")
        said = [one for one in seq.doctor() if one.code == "held long"]
        told = seq.explain(["order", 7])
        link.command("HSET", keys.leases, group, held)
        assert [message.id for message in lease] == ["m1"]
    assert [(one.group, one.fields["owner"]) for one in said] == [
        (("order", "7"), "shop.example:4711:00c0de")
    ] * is_named
    see = f"sequencer explain {seq.queue} order 7 --namespace {namespace}"
    assert [one.commands["inspect"] for one in said] == [see] * is_named
    assert told.fields["is_long"] == is_named


def test_who_waits_while_consumers_are_busy_is_told_what_they_have_in_hand_longest(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    """The only consumer hangs in group 7; the others wait, and their explanation leads to it."""
    seq = make(shards=2)
    seq.append_many({"body": n, "group": ["order", n]} for n in range(12))
    keys = {n: shard_keys(namespace, seq.queue, shard_of(f"order:{n}", 2)) for n in range(12)}
    with seq.claim(group=["order", 7], lease=30.0) as hangs, seq.claim(group=["order", 8], lease=30.0) as works:
        (now_us,) = [message.stamp for message in hangs]
        for n in set(range(12)) - {7, 8}:
            link.command("ZADD", keys[n].schedule, "XX", now_us - 40_000_000, f"order:{n}")
        info = f"sequencer info {seq.queue} --namespace {namespace}"
        assert seq.explain(["order", 1]).commands == {"inspect": info}
        held = link.command("HGET", keys[7].leases, "order:7")
        older = f"{int(held[:16]) - 40_000_000:016d}".encode()
        link.command("HSET", keys[7].leases, "order:7", older + b"1shop.example:4711:00c0de")
        found = [seq.explain(["order", n]) for n in (1, 2, 3, 4)]
        link.command("HSET", keys[7].leases, "order:7", held)
        assert works.owner
    see = f"sequencer explain {seq.queue} order 7 --namespace {namespace}"
    for one in found:
        assert (one.reason, one.commands) == ("due", {"inspect": see})
        longest = one.fields["longest"]
        assert (longest["group"], longest["owner"]) == (("order", "7"), "shop.example:4711:00c0de")
        assert 40 <= longest["held_s"] < 60
