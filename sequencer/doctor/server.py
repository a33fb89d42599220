"""Whether a server is fit for queues: version, role, eviction, persistence, replicas, clock."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import SequencerError, ServerNotUsable, ServerUnavailable
from ..net.link import Link
from ..values.views import Finding, Level

MAX_CLOCK_OFF_S = 1.0
"""By how much clocks may differ before that is said: more than any network between them takes."""


def tried(link: Link, *words: Any) -> tuple[Any, str]:
    """The reply, or None and the error. Raises ServerUnavailable: that says nothing of what is permitted."""
    try:
        return link.command(*words), ""
    except ServerUnavailable:
        raise
    except SequencerError as error:
        return None, str(error)


def server_facts(link: Link) -> tuple[dict[str, str], dict[str, str], float]:
    """INFO, the settings that may be read, and by how many seconds its clock is ahead of ours."""
    text, _ = tried(link, "INFO")
    config: dict[str, str] = {}
    for name in ("appendfsync", "save", "min-replicas-to-write"):
        words, _ = tried(link, "CONFIG", "GET", name)
        if words:
            config[name] = words[1].decode("utf-8", "replace")
    before = time.time()
    moment, _ = tried(link, "TIME")
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


MIN_VERSION = (6, 2)


def check_server(info: dict[str, str], name: str) -> None:
    """Refuse a server that would lose or refuse data: from its INFO. Raises ServerNotUsable, ServerUnavailable."""
    version = info.get("redis_version", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers and numbers < MIN_VERSION:
        raise ServerNotUsable(f"server {name} is Redis {version}; 6.2 or later, or Valkey, is needed")
    if info.get("role") == "slave":
        raise ServerNotUsable(f"server {name} is a replica; connect to the primary")
    if info.get("loading") == "1":
        raise ServerUnavailable(f"server {name} is loading its data; try again")
    if info.get("cluster_enabled") == "1":
        raise ServerNotUsable(f"server {name} runs in cluster mode, which is not supported yet")
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory", "0") != "0" and policy != "noeviction":
        raise ServerNotUsable(
            f"server {name} evicts keys (maxmemory-policy {policy}), which deletes halves of groups without an error; "
            "use: CONFIG SET maxmemory-policy noeviction"
        )


def parse_info(text: str) -> dict[str, str]:
    """INFO's reply as a dict."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}
