"""What doctor says of a cluster: nodes that are away, what a dead one stops, moves of hash slots, clocks, scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..calls.net_protocol import Alone
from ..errors import SequencerError, ServerError, ServerUnavailable
from ..net.cluster import Cluster
from ..net.endpoint import HASTY_S
from ..net.link import ConnectionAlone, Link, finish
from ..net.slots import named
from ..store.keys import ShardKeys, guard_key
from ..texts.findings import Finding, finding
from .rights import is_denied
from .scope import Scope
from .server import admin_command, reply_or_error, server_facts, server_findings

MAX_APART_S = 0.5
"""By how much the clocks of nodes may differ before that is said: leases and delays are by the clock of their node."""


SAID_OF_NODES = "cluster", "no replicas", "server clock"
"""Of a node no news, or said in other words."""
MOVE_S = 0.5
"""How long a hash slot that is on its way is waited for, before its shard counts as one that does not answer."""


@dataclass(frozen=True, slots=True)
class Node:
    """A server that is examined; of a cluster, a primary alone."""

    link: Link
    info: Mapping[str, str]
    config: Mapping[str, str]
    ahead_s: float


def nodes_of(link: Link) -> tuple[list[Node], list[Finding]]:
    """The server, or the primaries that answer; what is to be said of the others. Raises ServerError."""
    found, away, failures = list[Node](), list[Finding](), list[ServerError]()
    if link.endpoint.cluster is None:
        return [Node(link, *server_facts(link))], []
    for endpoint in link.endpoint.nodes():
        try:
            own = Link(endpoint)
            own.connection()
            found.append(Node(own, *server_facts(own)))
        except ServerError as error:  # also one that lacks the user: the cluster does not copy it from node to node
            away.append(finding("node away", node=endpoint.name, error=error.fields["error"]))
            failures.append(error)
    if not found:
        raise failures[0]
    return found, away


def of_nodes(nodes: Sequence[Node], examine: Callable[[Node], Iterable[Finding]]) -> Iterator[Finding]:
    """What holds of all these servers is said once; of anything else, the node is named."""
    found = [(node, one) for node in nodes for one in examine(node)]
    counts = Counter(one.text for _, one in found)
    for node, one in found:
        if counts[one.text] < len(nodes):
            yield replace(one, fields={**one.fields, "node": node.link.endpoint.name})
        elif node is nodes[0]:
            yield one


def of_server(node: Node) -> Iterator[Finding]:
    return server_findings(node.info, node.config, node.ahead_s, admin_command(node.link))


def cluster_findings(cluster: Cluster, nodes: Sequence[Node]) -> Iterator[Finding]:
    """What holds of a cluster besides."""
    replicas = sum(int(node.info.get("connected_slaves", "0")) for node in nodes)
    yield finding("nodes", primaries=len(cluster.map.primaries), replicas=replicas)
    if count := cluster.map.unassigned:
        yield finding("slots unassigned", count=count, **_about(nodes[0]))
    yield from of_nodes(nodes, _of_primary)
    first, *_, last = sorted((node.ahead_s, node.link.endpoint.name) for node in [*nodes, nodes[0]])
    if (apart_s := last[0] - first[0]) > MAX_APART_S:
        yield finding("node clocks apart", apart_s=apart_s, ahead=last[1], behind=first[1])


def _of_primary(node: Node) -> Iterator[Finding]:
    if node.config.get("cluster-require-full-coverage") == "yes":
        yield finding("full coverage required", **_about(node))
    if node.info.get("connected_slaves") == "0":
        yield finding("primary without replica")
    slots, _ = reply_or_error(node.link, "CLUSTER", "NODES")
    if moving := _moving(slots.decode("utf-8", "replace")) if slots else []:
        yield finding("slots moving", slots=moving, **_about(node))
    if error := _script_error(node.link):
        yield finding("scripts broken", error=error)


def _about(node: Node) -> dict[str, str]:
    """For a command to fix it."""
    return {"place": node.link.endpoint.name, "cli": admin_command(node.link)}


def _moving(nodes: str) -> list[str]:
    """From the answer of a node to CLUSTER NODES: its hash slots that are on their way."""
    own = next((line.split() for line in nodes.splitlines() if "myself" in line), [])
    return [word[1:].partition("-")[0] for word in own if word[0] == "["]


def _script_error(link: Link) -> str:
    """Why no script runs, if that is so: in Valkey 9, for good, after one has read keys of two hash slots at once."""
    try:
        link.command("EVAL", "return redis.call('TIME')", 0)
    except SequencerError as error:
        return "" if is_denied(error) else str(error.fields.get("error", error))
    return ""


def shard_findings(scope: Scope) -> Iterator[Finding]:
    """Where the shards of a queue are, and which do not answer."""
    alone = ConnectionAlone(scope.link.connection(), scope.link.endpoint.name, HASTY_S)
    missing = finish(unanswered(alone, scope.shards))
    if missing:
        yield scope.found("shards unreachable", unreachable=[*missing], error=str(next(iter(missing.values()))))
    assert scope.link.endpoint.cluster
    owners = (scope.link.endpoint.cluster.map.owner(("EXISTS", keys.schedule)) for keys in scope.shards)
    yield scope.found("shards by node", nodes=Counter(named(owner) for owner in owners if owner))


async def unanswered(alone: Alone, shards: Sequence[ShardKeys]) -> dict[int, ServerUnavailable]:
    """By their numbers, the shards that do not answer now. One whose hash slot is on its way does not: half of it may
    be elsewhere.
    """
    asked = [("EXISTS", keys.schedule, guard_key(keys.schedule)) for keys in shards]
    answers = await alone.answers(asked, within_s=MOVE_S)
    return {number: one for number, one in enumerate(answers) if isinstance(one, ServerUnavailable)}
