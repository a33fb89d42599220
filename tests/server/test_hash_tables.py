"""Hashes that scripts look into by group are hash tables from the first field on; nobody sees what makes them so."""

from __future__ import annotations

from collections.abc import Callable

from sequencer import Sequencer
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until


def test_leases_are_a_hash_table_and_their_owner_is_shown_without_padding(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq, keys = make(), shard_keys(namespace, "jobs", 0)
    seq.append(1, group="g")
    with seq.claim(lease=0.1):
        assert link.command("OBJECT", "ENCODING", keys.leases) == b"hashtable"
        (group,) = seq.groups()
        assert group.owner
        assert group.owner == group.owner.strip()
        assert seq.explain("g").fields["owner"] == group.owner
        wait_until(lambda: seq.explain("g").fields.get("expired_owner") == group.owner)


def test_watermarks_are_a_hash_table(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    seq, keys = make(on_late="drop"), shard_keys(namespace, "jobs", 0)
    seq.append("high", group="g", score=10)
    seq.consume(lambda _: None, until_empty=True)
    assert link.command("OBJECT", "ENCODING", keys.marks) == b"hashtable"
    assert link.command("HGET", keys.marks, "g") == b"10"
    assert seq.append("low", group="g", score=9).outcome == "dropped"
    assert [one for one in seq.doctor() if one.check == "keys"] == []
