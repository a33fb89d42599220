"""A right that is missing for one key only, or a key of another type, is met in the middle of what a script writes:
what it stops is left whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sequencer import EmbeddedServer
from sequencer.calls.operate import update
from sequencer.calls.settle import Ack, HandlerRun, ack
from sequencer.doctor.invariants import check_invariants
from sequencer.errors import DataError, ServerNotUsable
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.settings.policy import Policy

from ..support.shard import Shard, item

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
            user.run(update(user.keys, "g", "a", due and "due", due, now_us=shard.now))
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
    assert shard.run(update(shard.keys, "g", "a", "", "", now_us=shard.now)) == "done"
    assert shard.append(item("g", "a")) == ["stored"]


def test_an_audit_stream_of_another_type_is_found_before_anything_is_removed(shard: Shard) -> None:
    shard.append(item("g", "a"))
    lease = shard.claim()["g"]
    shard.link.command("SET", shard.keys.audit, "foreign")
    entry = Ack("g", lease.token, lease.members, True, runs=[HandlerRun("a", "1", "1", "1", "2", "0")])
    with pytest.raises(DataError):
        shard.run(ack(shard.keys, [entry], now_us=shard.now))
    assert shard.ids("g") == ["a"]
    shard.link.command("DEL", shard.keys.audit)
    assert shard.run(ack(shard.keys, [entry], now_us=shard.now)) == ([], False)
    assert shard.link.command("XLEN", shard.keys.audit) == 1
