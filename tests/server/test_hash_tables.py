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
