"""Examines a server and the queues on it: whether it may be used, what it may lose, which rights the user lacks, and
whether the invariants of the data hold. Works on a server that a Sequencer would refuse.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .auditor import Auditor
from .connection import MIN_VERSION, Endpoint, parse_info
from .errors import ConfigurationError, SequencerError
from .keys import LaneKeys, check_name, lane_keys, registry_key
from .options import MAX_LANES
from .rights import SCRATCH, try_rights
from .scripts import Link

Level = Literal["ok", "warning", "problem"]
MAX_CLOCK_OFF_S = 1.0
"""By how much clocks may differ before that is said: more than any network between them takes."""
MAX_TOLD = 50
"""Problems of one kind in one queue that are told one by one; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: "ok"; "warning" for what may be meant so; "problem" for what has to be mended."""

    check: str
    level: Level
    text: str
    repaired: bool = False
    """Whether a problem was mended by this run."""


def diagnose(
    endpoint: Endpoint, namespace: str, queue: str | None = None, *, repair: bool = False, limit: int | None = None
) -> list[Finding]:
    """Examine the server, and one queue or all of the namespace; with `repair`, mend what the data allow.

    `limit`: about how many names to read in each queue. Reads in pages, and may run while producers and consumers do.
    Raises ConfigurationError, and ServerUnavailable when the server can't be reached.
    """
    check_name("namespace", namespace)
    if queue is not None:
        check_name("queue", queue)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ConfigurationError(f"limit={limit!r} must be a whole number from 1")
    link = Link(endpoint)
    try:
        return list(_diagnose(link, namespace, queue, repair, limit))
    finally:
        link.close()


def is_healthy(findings: list[Finding]) -> bool:
    """Whether no problem is left."""
    return all(one.level != "problem" or one.repaired for one in findings)


def _diagnose(link: Link, namespace: str, queue: str | None, repair: bool, limit: int | None) -> Iterator[Finding]:
    link.connection()
    server = list(server_findings(*_server_facts(link)))
    yield from server
    if any(one.level == "problem" and one.check in ("version", "role", "loading") for one in server):
        yield Finding("queues", "warning", "not checked, because this server can't hold queues as it is")
        return
    known, denied = _try(link, "HGETALL", registry_key(namespace))
    words = known or []
    texts = {name.decode("utf-8", "replace"): count for name, count in zip(words[::2], words[1::2], strict=True)}
    lanes = {name: int(count) for name, count in texts.items() if count.isdigit() and 0 < int(count) <= MAX_LANES}
    yield from _registry(link, namespace, queue, texts, lanes, repair)
    queues = sorted(lanes) if queue is None else [queue]
    yield from _rights(link, namespace, queues or [SCRATCH])
    if denied:
        yield Finding("queues", "problem", f"can't be listed: {denied}")
        return
    for name in queues:
        if name not in lanes:
            yield Finding("queues", "warning", f"queue {name!r} was never used here; is its name right?")
            continue
        keys = [lane_keys(namespace, name, lane) for lane in range(lanes[name])]
        try:
            yield from _dispatch(link, name, keys, repair)
            yield from _lane_clocks(link, name, keys)
            yield from _invariants(link, name, keys, repair, limit)
        except SequencerError as error:
            yield Finding("invariants", "problem", f"queue {name}: could not be checked to the end: {error}")
    if not queues:
        yield Finding("queues", "ok", f"none in namespace {namespace!r} yet")


def _registry(
    link: Link, namespace: str, queue: str | None, texts: dict[str, bytes], lanes: dict[str, int], repair: bool
) -> Iterator[Finding]:
    """Queues whose number of lanes is missing or unreadable, though they have keys; mended from the keys."""
    for name, count in _lanes_found(link, namespace).items():
        if name in lanes or queue not in (None, name):
            continue
        said = f"says {texts[name]!r}" if name in texts else "does not know it"
        now = link.command("HGET", registry_key(namespace), name)
        if now != texts.get(name):
            continue  # it was registered meanwhile
        if repair:
            link.command("HSETNX" if now is None else "HSET", registry_key(namespace), name, count)
            lanes[name] = int(link.command("HGET", registry_key(namespace), name))
        text = f"queue {name} has keys in {count} lanes, but {registry_key(namespace)} {said}"
        yield Finding("queues", "problem", text, repair)


def _lanes_found(link: Link, namespace: str) -> dict[str, int]:
    """Queue -> its number of lanes, as far as there are keys of them. Reads every name on the server, in pages."""
    pattern, cursor = re.compile(rb"\{%s:([\w.-]+):(\d+)\}:" % re.escape(namespace).encode()), b"0"
    found: dict[str, int] = {}
    while True:
        page, denied = _try(link, "SCAN", cursor, "MATCH", f"{{{namespace}:*", "COUNT", 1000)
        if denied:
            return {}
        cursor, keys = page
        for match in filter(None, map(pattern.match, keys)):
            name = match[1].decode()
            found[name] = max(found.get(name, 0), int(match[2]) + 1)
        if int(cursor) == 0:
            return found


def _try(link: Link, *words: Any) -> tuple[Any, str]:
    """The reply, or None and the error."""
    try:
        return link.command(*words), ""
    except SequencerError as error:
        return None, str(error)


# -- the server -------------------------------------------------------------------------------------------------


def _server_facts(link: Link) -> tuple[dict[str, str], dict[str, str], float]:
    """INFO, the settings that may be read, and by how many seconds its clock is ahead of ours."""
    text, _ = _try(link, "INFO")
    config: dict[str, str] = {}
    for name in ("appendfsync", "save", "min-replicas-to-write"):
        words, _ = _try(link, "CONFIG", "GET", name)
        if words:
            config[name] = words[1].decode("utf-8", "replace")
    before = time.time()
    moment, _ = _try(link, "TIME")
    ours = (before + time.time()) / 2
    ahead_s = int(moment[0]) + int(moment[1]) / 1e6 - ours if moment else 0.0
    return parse_info(text.decode("utf-8", "replace")) if text else {}, config, ahead_s


def server_findings(info: Mapping[str, str], config: Mapping[str, str], ahead_s: float) -> Iterator[Finding]:
    """What INFO, settings and clock say of a server. Pure."""
    if not info:
        yield Finding("version", "warning", "unknown, and so is all else: INFO is not permitted; grant +info")
        return
    kind, version = "Redis", info.get("redis_version", "?")
    if "valkey_version" in info:
        kind, version = "Valkey", info["valkey_version"]
    numbers = tuple(int(part) for part in re.findall(r"\d+", info.get("redis_version", ""))[:2])
    is_old = bool(numbers) and numbers < MIN_VERSION
    yield Finding("version", "problem" if is_old else "ok", f"{kind} {version}{'; 6.2 or later is needed' * is_old}")
    if info.get("role") == "slave":
        yield Finding("role", "problem", "a replica; connect to the primary")
    elif info.get("cluster_enabled") == "1":
        yield Finding("role", "problem", "a node of a cluster, which is not supported yet")
    else:
        yield Finding("role", "ok", "a primary")
    if info.get("loading") == "1":
        yield Finding("loading", "problem", "it is loading its data; try again")
    yield _eviction(info)
    yield from _persistence(info, config)
    yield _replicas(info, config)
    level: Level = "warning" if abs(ahead_s) > MAX_CLOCK_OFF_S else "ok"
    side = "ahead of" if ahead_s > 0 else "behind"
    yield Finding(
        "clock", level, f"the server's is {abs(ahead_s):.3f} s {side} ours; delays and leases go by the server's"
    )


def _eviction(info: Mapping[str, str]) -> Finding:
    policy, size = info.get("maxmemory_policy", "noeviction"), info.get("maxmemory", "0")
    if policy == "noeviction":
        return Finding("eviction", "ok", f"noeviction, maxmemory {size if size != '0' else 'not set'}")
    text = (
        f"maxmemory-policy {policy} deletes halves of groups without an error; CONFIG SET maxmemory-policy noeviction"
    )
    if size == "0":
        return Finding("eviction", "warning", f"{text} (maxmemory is not set, so it does not yet)")
    return Finding("eviction", "problem", text)


def _persistence(info: Mapping[str, str], config: Mapping[str, str]) -> Iterator[Finding]:
    """The row of the durability table that follows from the settings."""
    fsync, save = config.get("appendfsync"), config.get("save")
    loses: dict[str, tuple[Level, str]] = {
        "always": ("ok", "nothing it has answered"),
        "everysec": ("ok", "about the last second"),
        "no": ("warning", "what the operating system had not yet written, about half a minute"),
    }
    level: Level = "warning"
    if info.get("aof_enabled") == "1" and fsync in loses:
        level, text = loses[fsync]
        yield Finding("persistence", level, f"appendonly yes, appendfsync {fsync}: a crash may lose {text}")
    elif info.get("aof_enabled") == "1":
        yield Finding("persistence", "ok", "appendonly yes; appendfsync can't be read: CONFIG GET is not permitted")
    elif save:
        yield Finding("persistence", level, "snapshots only: a crash may lose everything since the last one")
    elif save is None:
        text = "no append-only file; whether there are snapshots can't be read: CONFIG GET is not permitted"
        yield Finding("persistence", level, f"{text}: a crash may lose everything since the last one, if there is one")
    else:
        yield Finding("persistence", level, "none: a crash may lose everything")
    for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"):
        if info.get(name, "ok") != "ok":
            yield Finding("persistence", "problem", f"{name} is {info[name]}: it can't write to disk; look at its log")


def _replicas(info: Mapping[str, str], config: Mapping[str, str]) -> Finding:
    count, wanted = int(info.get("connected_slaves", "0")), config.get("min-replicas-to-write", "?")
    if not count and wanted in ("0", "?"):
        return Finding("replicas", "ok", "none connected")
    text = f"{count} connected, min-replicas-to-write {wanted}"
    if wanted == "0":
        text += ": a failover may lose what the replicas had not yet received; 1 bounds that"
    if wanted.isdigit() and int(wanted) > count:
        return Finding("replicas", "problem", f"{text}: the server refuses writes for want of replicas")
    return Finding("replicas", "warning" if wanted == "0" else "ok", text)


# -- queues -----------------------------------------------------------------------------------------------------


def _rights(link: Link, namespace: str, queues: list[str]) -> Iterator[Finding]:
    rights = try_rights(link, namespace, queues)
    if rights.missing:
        names = " ".join(sorted(rights.missing))
        yield Finding("rights", "problem", f"the user lacks {names}; grant it with ACL SETUSER")
    elif any("maxmemory" in text for text in rights.errors):
        yield Finding("rights", "warning", "not all tried: the server is at its maxmemory, until consumers drained it")
    else:
        yield from (Finding("rights", "problem", text) for text in list(rights.errors)[:MAX_TOLD])
        if not rights.errors:
            yield Finding("rights", "ok", "every command and script of ours may be run")


def _dispatch(link: Link, queue: str, lanes: list[LaneKeys], repair: bool) -> Iterator[Finding]:
    """A dispatch list of another type stops every script; what it holds may be lost, so it can go."""
    for keys in lanes:
        kind = link.command("TYPE", keys.dispatch)
        if kind not in (b"list", b"none"):
            if repair:
                link.command("DEL", keys.dispatch)
            text = f"queue {queue}: the dispatch list {keys.dispatch} is a {kind.decode()}; it can be deleted"
            yield Finding("keys", "problem", text, repair)


def _lane_clocks(link: Link, queue: str, lanes: list[LaneKeys]) -> Iterator[Finding]:
    """A lane clock ahead of the server's time: that was set back, or another server's data were loaded."""
    seconds, micros = link.command("TIME")
    now_us = int(seconds) * 1_000_000 + int(micros)
    ahead_s = 0.0
    for keys in lanes:
        clock, _ = _try(link, "GET", keys.clock)
        if clock and clock.isdigit():
            ahead_s = max(ahead_s, (int(clock) - now_us) / 1e6)
    if ahead_s > MAX_CLOCK_OFF_S:
        text = f"the lane clock is {ahead_s:.1f} s ahead of the server's time, which was set back"
        yield Finding(
            "clock", "warning", f"queue {queue}: {text}; leases of dead consumers and delays end that much later"
        )


def _invariants(link: Link, queue: str, lanes: list[LaneKeys], repair: bool, limit: int | None) -> Iterator[Finding]:
    auditor = Auditor(link, lanes, repair=repair, limit=limit)
    counts: Counter[tuple[str, bool]] = Counter()
    for one in auditor.run():
        counts[one.check, one.is_repaired] += 1
        if counts[one.check, one.is_repaired] <= MAX_TOLD:
            yield Finding(one.check, "problem", f"queue {queue}: {one.text}", one.is_repaired)
    for (check, is_repaired), count in counts.items():
        if count > MAX_TOLD:
            yield Finding(check, "problem", f"queue {queue}: and {count - MAX_TOLD} more like these", is_repaired)
    mended = sum(count for (_, is_repaired), count in counts.items() if is_repaired)
    left = sum(counts.values()) - mended
    seen = f"groups: {auditor.groups}, messages: {auditor.messages}"
    if auditor.is_cut:
        yield Finding(
            "invariants", "warning", f"queue {queue}: stopped at the limit of {limit} names; {seen} were read"
        )
    if not counts:
        yield Finding("invariants", "ok", f"queue {queue}: all hold ({seen})")
    else:
        level: Level = "problem" if left else "ok"
        yield Finding("invariants", level, f"queue {queue}: {mended} mended, {left} left ({seen})")
