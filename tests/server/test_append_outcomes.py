"""What append says became of messages; and what is stopped in the middle of its writes is left whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sequencer import EmbeddedServer
from sequencer.calls.append import append
from sequencer.calls.operate import update
from sequencer.errors import DataError, ServerNotUsable
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.item import Item
from sequencer.store.record import STAMP_DIGITS

from ..support.invariants import check_invariants
from ..support.shard import Shard, at, item

DELAYED = "+100000000"


def stored(shard: Shard) -> dict[bytes, Any]:
    """All but the time of the last call."""
    return {key: data for key, data in shard.dump().items() if key.decode() != shard.keys.clock}


@pytest.mark.parametrize("score", ["-1", "1.5", "x", ""])
def test_a_number_of_a_sequence_is_whole_and_not_below_0(shard: Shard, score: str) -> None:
    shard.rules(Policy(sequence=True))
    with pytest.raises(DataError, match="SEQUENCE"):
        shard.append(item("g", "a", "1"), item("g", "b", score))
    assert shard.ids("g") == []
    assert shard.append(item("g", "a", "0")) == ["stored"]


@pytest.mark.parametrize(
    ("on_late", "said"), [("dead_letter", "dead_letter"), ("drop", "dropped"), ("refuse", "refused")]
)
def test_a_question_changes_nothing(shard: Shard, on_late: Any, said: str) -> None:
    shard.rules(Policy(on_late=on_late, watermark_window=100))
    shard.append(item("g", "a", "5"))
    shard.handle("g", "5")
    shard.append(item("g", "pending", "7"))
    before = stored(shard)
    asked = [item("g", "b", "4"), item("g", "pending", "7"), item("g", "c", "8"), item("new", "a")]
    assert shard.append(*asked, dry_run=True) == [said, "duplicate", "stored", "stored"]
    assert stored(shard) == before


def test_a_batch_that_was_refused_for_two_reasons_is_not_called_late(shard: Shard) -> None:
    shard.rules(Policy(on_late="refuse", watermark_window=100))
    shard.append(item("g", "a", "5"))
    shard.handle("g", "5")
    shard.append(item("g", "pending", "7"))
    late, conflict = item("g", "b", "4"), item("g", "pending", "8")
    for items, said in (([late], "LATE"), ([conflict], "IDCONFLICT"), ([late, conflict], "IDCONFLICT")):
        with pytest.raises(DataError, match=said):
            shard.append(*items, on_conflict="error")
    assert shard.ids("g") == ["pending"]


WAYS = {
    "one": [item("g", "b")],
    "one that is due later": [item("g", "b", due="+10")],
    "several": [item("h", "a"), item("g", "b", due="+10")],
}


@pytest.mark.parametrize("items", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("name", ["order", "body", "schedule", "dispatch", "stats", "leases", "failures"])
def test_a_key_of_another_type_is_found_before_anything_is_stored(shard: Shard, items: list[Item], name: str) -> None:
    """Some would be met at the end, where a group that sleeps is woken."""
    shard.append(item("g", "a", due=DELAYED))
    key = getattr(shard.keys, name)
    key = key if isinstance(key, str) else key("g")
    kept = shard.link.command("DUMP", key)
    shard.link.command("SET", key, "foreign")
    before = stored(shard)
    with pytest.raises(DataError):
        shard.append(*items)
    assert stored(shard) == before
    shard.link.command("DEL", key)
    if kept:
        shard.link.command("RESTORE", key, 0, kept)
    assert shard.append(*items) == ["stored"] * len(items)


def schedule_of(shard: Shard) -> dict[str, float]:
    words = shard.link.command("ZRANGE", shard.keys.schedule, 0, -1, "WITHSCORES")
    return {group.decode(): float(at) for group, at in zip(words[::2], words[1::2], strict=True)}


@pytest.mark.parametrize("pending", [None, 3])
@pytest.mark.parametrize("back_s", [0, 4e-6], ids=["within a second", "over its end"])
def test_each_mark_has_the_stamp_under_which_its_message_stands(
    shard: Shard, pending: int | None, back_s: float
) -> None:
    """Also where one was there already, which is said of it alone."""
    items = [item(f"g{i % 3}", f"i{i}", "" if i % 2 else str(i)) for i in range(8)]
    shard.later(-back_s)
    if pending is not None:
        shard.link.run_one(at(append(shard.keys, [items[pending]]), shard.now - 10))
    marks = shard.run(append(shard.keys, items))
    members = [
        one for group in ("g0", "g1", "g2") for one in shard.link.command("ZRANGE", shard.keys.order(group), 0, -1)
    ]
    stamps = {one[STAMP_DIGITS:].decode(): int(one[:STAMP_DIGITS]) for one in members}
    assert [mark.stamp for mark in marks] == [stamps[one.id] for one in items]
    assert [mark.outcome for mark in marks] == ["duplicate" if i == pending else "stored" for i in range(8)]
    short = shard.run(append(shard.keys, [one._replace(group="other") for one in items], with_stamps=False))
    assert [mark.outcome for mark in short] == ["stored"] * 8


@pytest.mark.parametrize("count", [32, 33])
def test_groups_put_off_become_due_and_what_is_held_stays(shard: Shard, count: int) -> None:
    """With a hint there already, few groups to be looked at later are read by name, many by their time."""
    names = [f"late{i}" for i in range(count)]
    shard.append(*[item(name, "a", due=DELAYED) for name in names], item("held", "a"), item("due", "a"))
    (held,) = shard.claim(ClaimLimits(groups=1))
    assert shard.hints()
    before, soon_us = schedule_of(shard), shard.now + 50_000_000
    again = [item(name, "b") for name in (*names[::2], held, "due", "new")]
    soon = [item(name, "b", due=str(soon_us)) for name in (*names[1::4], "new and late")]
    shard.append(*again, *soon)
    expected = before | dict.fromkeys([*names[::2], "new"], shard.now)
    assert schedule_of(shard) == expected | dict.fromkeys((*names[1::4], "new and late"), soon_us)


USER = "restricted"
As = Callable[..., Shard]


@pytest.fixture
def restricted(shard: Shard, server: EmbeddedServer) -> Iterator[As]:
    """The shard as a user sees it who has all rights but for what is said: kinds of a group's keys that it may only
    read, and commands that it may not use. Of all other groups it may write those keys too.
    """
    links: list[Link] = []

    def restricted(*kinds: str, group: str = "g", without: str = "") -> Shard:
        prefix, others = shard.keys.prefix, f"[^{group}]*"
        keys = [f"%R~{prefix}*", f"~{prefix}[^ob]*", *[f"~{prefix}{kind}:{others}" for kind in ("order", "body")]]
        keys += [f"~{prefix}{kind}:*" for kind in {"order", "body"} - set(kinds)]
        denied = [f"-{command}" for command in without.split()]
        shard.link.command("ACL", "SETUSER", USER, "reset", "on", ">password", *keys, "+@all", *denied)
        links.append(Link(Endpoint.from_url(f"unix://{USER}:password@{server.socket}")))
        found = Shard(links[-1], shard.keys)
        found.now = shard.now
        return found

    yield restricted
    for link in links:
        link.close()
    shard.link.command("ACL", "DELUSER", USER)


def test_a_message_that_may_not_be_taken_away_is_neither_replaced_nor_cancelled_nor_moved(
    shard: Shard, restricted: As
) -> None:
    shard.append(item("g", "a", body="1"))
    user = restricted("order")
    assert user.append(item("g", "a", body="2"), on_conflict="replace") == ["conflict"]
    for due in ("", "+10"):
        with pytest.raises(ServerNotUsable):
            user.run(update(user.keys, "g", "a", due and "due", due))
    assert [one.body for one in shard.claim()["g"].messages] == [1]
    assert shard.ids("g") == ["a"]
    assert (shard.total("cancelled"), shard.total("appended")) == (0, 1)


def test_a_replace_that_is_refused_goes_no_further(shard: Shard, restricted: As) -> None:
    """A script could not undo what else it replaced."""
    shard.append(item("h", "a", body="1"))
    user = restricted("body")
    with pytest.raises(ServerNotUsable):
        user.append(item("g", "a"), item("h", "a", body="2"), on_conflict="replace")
    assert shard.ids("g") == []
    assert [one.body for one in shard.claim()["h"].messages] == [1]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("due", ["", "+10"])
@pytest.mark.parametrize("kind", ["order", "body"])
def test_an_append_that_is_refused_at_one_key_leaves_nothing(
    shard: Shard, restricted: As, kind: str, due: str, count: int
) -> None:
    items = [item("h", "a"), item("g", "a", due=due)][-count:]
    before = shard.dump()
    with pytest.raises(ServerNotUsable):
        restricted(kind).append(*items)
    shard.link.command("DEL", shard.keys.clock)
    assert shard.dump() == before
    assert shard.append(*items) == ["stored"] * count


def test_an_acknowledged_message_that_may_not_be_taken_away_stays(shard: Shard, restricted: As) -> None:
    """It comes again, and until then its id counts as pending, not as handled."""
    shard.rules(Policy(dedup_window=10))
    shard.append(item("g", "a"))
    assert restricted("order").ack(shard.claim()["g"]) == ([], False)
    assert shard.ids("g") == ["a"]
    assert check_invariants(shard.link, [shard.keys]) == []
    assert shard.total("handled") == 0
    assert shard.run(update(shard.keys, "g", "a", "", "")) == "done"
    assert shard.append(item("g", "a")) == ["stored"]
