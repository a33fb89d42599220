"""Many messages in one call: what it says became of each, and which groups it wakes."""

from __future__ import annotations

import pytest

from sequencer.calls.append import append
from sequencer.calls.claim import claim
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.item import Item
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.store.record import STAMP_DIGITS

NOW_US = 1_800_000_000_000_000
LATER_US = NOW_US + 100_000_000


@pytest.fixture
def keys(link: Link, namespace: str) -> ShardKeys:
    link.command("HSET", f"{namespace}:queues", "q", 1)
    return shard_keys(namespace, "q", 0)


def stamps_in(link: Link, keys: ShardKeys, items: list[Item]) -> list[int]:
    """Under which stamp each message stands in the order of its group."""
    found = {
        (group, member[STAMP_DIGITS:].decode()): int(member[:STAMP_DIGITS])
        for group in {item.group for item in items}
        for member in link.command("ZRANGE", keys.order(group), 0, -1)
    }
    return [found[item.group, item.id] for item in items]


def schedule_of(link: Link, keys: ShardKeys) -> dict[str, float]:
    words = link.command("ZRANGE", keys.schedule, 0, -1, "WITHSCORES")
    return {group.decode(): float(at) for group, at in zip(words[::2], words[1::2], strict=True)}


@pytest.mark.parametrize("pending", [None, 0, 3, 7])
@pytest.mark.parametrize("now_us", [NOW_US, NOW_US - 4], ids=["within a second", "over its end"])
def test_each_mark_has_the_stamp_under_which_its_message_stands(
    link: Link, keys: ShardKeys, pending: int | None, now_us: int
) -> None:
    """Also where one was there already, which is said of it alone."""
    items = [Item(f"g{i % 3}", f"i{i}", "" if i % 2 else str(i), b"[%d]" % i) for i in range(8)]
    if pending is not None:
        link.run_one(append(keys, [items[pending]], now_us=now_us - 10))
    marks = link.run_one(append(keys, items, now_us=now_us))
    assert [mark.stamp for mark in marks] == stamps_in(link, keys, items)
    assert [mark.outcome for mark in marks] == ["duplicate" if i == pending else "stored" for i in range(8)]
    short = link.run_one(append(keys, [item._replace(group="other") for item in items], with_stamps=False))
    assert [mark.outcome for mark in short] == ["stored"] * 8


@pytest.mark.parametrize("count", [1, 32, 33, 50])
def test_groups_put_off_become_due_and_what_is_held_stays(link: Link, keys: ShardKeys, count: int) -> None:
    """With a hint there already, few groups to be looked at later are read by name, many by their time."""
    names = [f"late{i}" for i in range(count)]
    first = [Item(name, "a", "", b"[1]", str(LATER_US)) for name in names]
    link.run_one(append(keys, [*first, *[Item(name, "a", "", b"[1]") for name in ("held", "due")]], now_us=NOW_US))
    (held,) = link.run_one(claim(keys, "q", "me", 5.0, ClaimLimits(groups=1), now_us=NOW_US + 1)).groups
    assert link.command("LLEN", keys.dispatch) > 0
    before = schedule_of(link, keys)
    again = [Item(name, "b", "", b"[2]") for name in (*names[::2], held.group[0], "due", "new")]
    soon = [Item(name, "b", "", b"[2]", str(NOW_US + 50_000_000)) for name in (*names[1::4], "new and late")]
    link.run_one(append(keys, again + soon, now_us=NOW_US + 2))
    expected = before | dict.fromkeys(names[::2], NOW_US + 2) | {"new": NOW_US + 2}
    expected |= dict.fromkeys((*names[1::4], "new and late"), NOW_US + 50_000_000)
    assert schedule_of(link, keys) == expected
