"""What the doctor says of the nodes of a cluster, and of shards there."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.doctor.diagnose import diagnose
from sequencer.doctor.rights import acl_rules
from sequencer.errors import DataError
from sequencer.net.endpoint import Endpoint
from sequencer.store.keys import registry_key
from sequencer.testing import wait_until
from sequencer.texts.findings import Finding

from ..support.cluster import Cluster, slot_of

pytestmark = pytest.mark.slow


def diagnosed(cluster: Cluster, namespace: str, code: str, url: str = "") -> list[Finding]:
    found = diagnose(Endpoint.from_url(url or cluster.url), namespace, for_program=True)
    return [one for one in found if one.code == code]


def test_what_differs_from_node_to_node_is_said_with_the_node(cluster: Cluster, namespace: str) -> None:
    def nodes(code: str) -> list[Any]:
        return [one.fields.get("node", "") for one in diagnosed(cluster, namespace, code)]

    names = [f"127.0.0.1:{port}" for port in cluster.ports]
    assert (nodes("no eviction"), nodes("primary without replica"), nodes("server clock")) == ([""], [""], [])
    cluster.command(cluster.ports[1], "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
    try:
        assert (nodes("no eviction"), nodes("volatile eviction")) == ([names[0], names[2]], [names[1]])
    finally:
        cluster.command(cluster.ports[1], "CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_hash_slots_of_no_node_are_counted(cluster: Cluster, namespace: str) -> None:
    slot, other = slot_of(f"{namespace}a"), slot_of(f"{namespace}b")
    owners = {one: cluster.owner(one) for one in (slot, other)}

    def is_counted() -> bool:
        for one, port in itertools.product(owners, cluster.ports):
            with suppress(DataError):  # a node says when it has none; one that still heard of an owner says it again
                cluster.command(port, "CLUSTER", "DELSLOTS", one)
        return [one.fields["count"] for one in diagnosed(cluster, namespace, "slots unassigned")] == [2]

    try:
        wait_until(is_counted, 10, "both are counted")
    finally:
        for one, owner in owners.items():
            for port in cluster.ports:
                cluster.command(port, "CLUSTER", "SETSLOT", one, "NODE", cluster.id(owner))
    assert diagnosed(cluster, namespace, "slots unassigned") == []


def test_a_shard_that_no_client_reads_is_deleted_on_its_node(cluster: Cluster, namespace: str) -> None:
    """Its keys can't be kept by renaming them: they would be in another hash slot."""
    with Sequencer("q", cluster.url, namespace=namespace, shards=2) as seq:
        seq.append_many({"body": n, "group": n} for n in range(20))
        first, second = seq._session._shards
    for key in (registry_key(namespace, "q"), first.policy):
        cluster.command(cluster.owner(slot_of(key)), "HSET", key, "table", "0")
    (found,) = diagnosed(cluster, namespace, "unknown shard")
    assert [*found.commands] == ["delete"]
    assert f"-p {cluster.owner(slot_of(second.policy))} --scan" in found.commands["delete"]


def test_the_least_rights_on_one_queue_are_enough_on_every_node(cluster: Cluster, namespace: str) -> None:
    rules = [*acl_rules(namespace, "append", "q"), *acl_rules(namespace, "consume", "q")]
    for port in cluster.ports:
        cluster.command(port, "ACL", "SETUSER", namespace, "on", ">pw", "resetchannels", *rules)
    url = cluster.url.replace("//", f"//{namespace}:pw@")
    with Sequencer("q", url, namespace=namespace, shards=16) as seq:
        seq.append_many({"body": n, "group": n} for n in range(40))
        assert seq.consume(lambda _: None, until_empty=True).handled == 40
        port = cluster.owner(slot_of(seq._session._shards[3].schedule))
    cluster.command(port, "ACL", "SETUSER", namespace, "-zadd")
    (found,) = [one for one in diagnosed(cluster, namespace, "rights missing", url) if "zadd" in one.fields["rights"]]
    assert found.fields["node"] == f"127.0.0.1:{port}"
    cluster.command(port, "ACL", "DELUSER", namespace)
    (found,) = diagnosed(cluster, namespace, "node away", url)
    assert found.fields["node"] == f"127.0.0.1:{port}"
