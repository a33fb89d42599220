"""Examines a server and the queues on it: whether it may be used, what it may lose, which rights the user lacks, and
whether the invariants of the data hold. Works on a server that a Sequencer would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ..errors import DataError, SequencerError, ServerUnavailable
from ..net.endpoint import Endpoint
from ..net.link import ConnectionAlone, Link, finish
from ..store.keys import shard_keys
from ..store.replies import Reading
from ..texts.findings import FINDINGS, Finding, finding
from ..values.checks import check_name
from .cluster import SAID_OF_NODES, Node, cluster_findings, nodes_of, of_nodes, of_server, shard_findings
from .invariants import InvariantCheck
from .leases import held_long, parked_groups, without_consumers
from .registrations import check_registrations
from .rights import SCRATCH, is_denied, needed, refused_commands
from .scope import Scope
from .server import admin_command, is_full, memory_findings, once_code, sentinel_findings
from .state import check_state, check_units, remembered_ids

MAX_SHOWN = 50
"""Findings of one kind in one queue that are shown one by one; the rest is counted."""
MAX_LISTED = 10_000
"""The same for a program."""


def diagnose(
    endpoint: Endpoint, namespace: str, queue: str | None = None, *, repair: bool = False, for_program: bool = False
) -> list[Finding]:
    """Examine the server, and one queue or all of the namespace; with `repair`, repair what the data allow.

    `for_program`: list what is broken thing by thing, not only as much as an operator reads. Reads in pages, and may
    run while producers and consumers do.
    Raises ConfigurationError, ServerUnavailable, DataError.
    """
    check_name("namespace", namespace)
    if queue is not None:
        check_name("queue", queue)
    link = Link(endpoint.hasty())
    try:
        with Reading(endpoint.name):
            most = MAX_LISTED if for_program else MAX_SHOWN
            return list(_diagnose(link, namespace, queue, repair, most))
    finally:
        link.close()


def is_healthy(findings: list[Finding]) -> bool:
    """Whether no problem is left."""
    return all(one.level != "problem" or one.repaired for one in findings)


def memory_trouble(endpoint: Endpoint) -> str:
    """What is to be said of a server that is full, or nearly; "" for others. Raises ServerError."""
    link = Link(endpoint.hasty())
    try:
        for node in nodes_of(link)[0]:
            info = {name: value for name, value in node.info.items() if name != "errorstat_OOM"}
            found = memory_findings(info, admin_command(node.link))  # what it refused is of the past: doctor reports it
            if said := next((one.text for one in found if one.level != "ok"), ""):
                return said
        return ""
    finally:
        link.close()


def _diagnose(link: Link, namespace: str, queue: str | None, repair: bool, most: int) -> Iterator[Finding]:
    link.connection()
    (nodes, away), cluster = nodes_of(link), link.endpoint.cluster
    links = [node.link for node in nodes]
    server = [one for one in of_nodes(nodes, of_server) if not (cluster and one.code in SAID_OF_NODES)]
    yield from server
    if cluster:
        yield from [*away, *cluster_findings(cluster, nodes)]
    if link.endpoint.sentinels:
        yield from sentinel_findings(link.endpoint.sentinels)
    if any(one.level == "problem" and one.check in ("version", "role", "loading") for one in server):
        yield finding("not checked")
        return
    tables, denied = dict[str, tuple[str, ...]](), ""
    try:
        yield from check_registrations(link, namespace, queue, tables, repair=repair, nodes=links)
    except ServerUnavailable:
        raise
    except SequencerError as error:
        denied = str(error)
    queues = sorted(tables) if queue is None else [queue]
    yield from of_nodes(nodes, partial(_rights, namespace, queues or [SCRATCH]))
    if repair and any(is_full(node.info) for node in nodes):
        yield finding("repair needs room", namespace=namespace, queues=[queue] if queue else [])
    if denied:
        yield finding("not listed", error=denied)
        return
    for name in queues:
        keys = [shard_keys(namespace, name, tag) for tag in tables.get(name, ())]
        scope, is_whole = Scope(link, namespace, name, keys, repair, most), True
        if not keys:
            if name not in tables:
                yield scope.found("never used")
            continue
        try:
            if cluster:
                found = [*shard_findings(scope)]
                yield from found
                away_now = [shard for one in found for shard in one.fields.get("unreachable", ())]
                is_whole, keys = not away_now, [one for one in keys if one.number not in away_now]
                scope = replace(scope, shards=keys)
            if not keys:
                continue
            check = InvariantCheck(link, keys, repair=repair, nodes=links)
            yield from check_state(scope)
            yield from _invariants(scope, check)
            codes = {once_code(node.info, node.config): admin_command(node.link) for node in nodes}
            if check.has_once and (code := max(codes)):
                yield scope.found(code, cli=codes[code])
            yield from scope.cut(held_long(scope))
            yield from parked_groups(scope)
            if is_whole:
                yield from without_consumers(scope)
            with suppress(DataError):  # of a key that was reported above
                yield from check_units(scope)
                yield from remembered_ids(scope)
        except SequencerError as error:
            yield scope.found("unchecked", error=str(error))
    if not queues:
        yield finding("no queues", namespace=namespace)


def _rights(namespace: str, queues: list[str], node: Node) -> Iterator[Finding]:
    link, refused = node.link, dict[str, Exception]()
    for queue in queues:
        alone, shards = ConnectionAlone(link.connection(), link.endpoint.name), [shard_keys(namespace, queue, SCRATCH)]
        refused |= finish(refused_commands(alone, namespace, queue, shards, needed("admin")))
        if alone.is_given_up:
            link.close()
    missing = sorted(name if name[0] == "~" else f"+{name.lower()}" for name in refused if is_denied(refused[name]))
    missing += [] if node.info else ["+info"]
    unknown = {name: str(error) for name, error in refused.items() if getattr(error, "code", "") == "command_unknown"}
    if missing:
        yield finding("rights missing", rights=" ".join(missing))
    for name, error in unknown.items():
        yield finding("command refused", command=name, error=error)
    if not (missing or unknown):
        yield finding("rights")


def _invariants(scope: Scope, check: InvariantCheck) -> Iterator[Finding]:
    broken = repaired = fixable = 0

    def counted() -> Iterator[Finding]:
        nonlocal broken, repaired, fixable
        for one in check.run():
            broken += 1
            repaired += one.repaired
            fixable += not scope.repair and bool(FINDINGS[one.code].repair or one.fields.get("wanted") == "list")
            yield scope.found(one.code, one.repaired, **one.fields)

    yield from scope.cut(counted())
    if check.lost or check.emptied:
        yield scope.found("removed", messages=check.lost, groups=check.emptied)
    read = {"groups": check.groups, "messages": check.messages}
    if not broken:
        yield scope.found("sound", **read)
    elif broken == repaired:
        yield scope.found("repaired", repaired_count=repaired, **read)
    else:
        yield scope.found("broken", repaired_count=repaired, left=broken - repaired, fixable=fixable, **read)
