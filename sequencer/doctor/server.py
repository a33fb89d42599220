"""Whether a server is fit for queues: version, role, eviction, persistence, replicas, clock."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from shutil import which
from typing import Any, NamedTuple

from ..errors import SequencerError, ServerNotUsable, ServerUnavailable
from ..net.endpoint import Endpoint
from ..net.link import Link
from ..texts.commands import command, doctor_of, server_command
from ..texts.words import many
from ..values.views import Finding, Level

MAX_CLOCK_OFF_S = 1.0
"""By how much clocks may differ before that is said: more than any network between them takes."""


MIN_VERSION = (6, 2)
NEARLY_FULL = 0.9
"""Part of maxmemory from which on it is said, before appends are refused."""
FULL_AGAIN = 0.95
"""From here on a server that has refused commands is a problem: the next append that needs room is refused too."""
LEAST_ROOM = 64 * 1024 * 1024
"""The least maxmemory that is named: links and scripts alone take some of it."""


_REFUSED = re.compile(r"count=(\d{1,18})")
"""In INFO, of the error OOM."""


def parse_info(text: str) -> dict[str, str]:
    """INFO's reply as a dict."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def parse_version(text: str) -> tuple[int, ...]:
    """The first two numbers of a version; () where there are none."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


# -- what makes a server unusable -------------------------------------------------------------------------------


class Rule(NamedTuple):
    """One thing that a server must not be. Both texts may name fields of INFO, the refusal {doctor} too."""

    check: str
    is_broken: Callable[[Mapping[str, str]], bool]
    finding: str
    """What doctor says."""
    refusal: str
    """What a client says that does not connect, behind the server's name."""
    error: type[SequencerError] = ServerNotUsable
    later: str = ""
    """What a client says besides, under which the server became so."""


def _is_old(info: Mapping[str, str]) -> bool:
    version = parse_version(info.get("redis_version", ""))
    return bool(version) and version < MIN_VERSION


def _evicts(info: Mapping[str, str]) -> bool:
    """Whether it deletes keys without a time to live, such as all of ours."""
    return info.get("maxmemory", "0") != "0" and info.get("maxmemory_policy", "").startswith("allkeys-")


def would_evict(info: Mapping[str, str]) -> bool:
    """Whether it evicts as soon as it has a maxmemory."""
    return info.get("maxmemory", "0") == "0" and info.get("maxmemory_policy", "").startswith("allkeys-")


EVICTION = (
    "maxmemory-policy {maxmemory_policy} deletes halves of groups without an error; "
    "{cli} CONFIG SET maxmemory-policy noeviction"
)
NOT_YET = f"{EVICTION} (maxmemory is not set, so it evicts nothing yet; it does as soon as that is set)"


def eviction_to_come(info: Mapping[str, str], name: str) -> str:
    """What a client says of a server that will evict, and which command has the line for a shell."""
    return f"{NOT_YET.format_map({**info, 'cli': 'send it'})}; as a line for a shell: {doctor_of(name)}"


RULES = (
    Rule(
        "version",
        _is_old,
        "Redis {redis_version}; 6.2 or later is needed",
        "is Redis {redis_version}; 6.2 or later, or Valkey, is needed",
    ),
    Rule(
        "role",
        lambda info: info.get("role") == "slave",
        "a replica; connect to the primary",
        "is a replica; connect to the primary",
    ),
    Rule(
        "loading",
        lambda info: info.get("loading") == "1",
        "it is loading its data; try again",
        "is loading its data; try again",
        ServerUnavailable,
    ),
    Rule(
        "role",
        lambda info: info.get("cluster_enabled") == "1",
        "a node of a cluster, which is not supported yet",
        "runs in cluster mode, which is not supported yet",
    ),
    Rule(
        "eviction",
        _evicts,
        EVICTION,
        "evicts keys (maxmemory-policy {maxmemory_policy}), which deletes halves of groups without an error; "
        "CONFIG SET maxmemory-policy noeviction ends that, and this has it as a line for a shell: {doctor}",
        later="; what it has evicted by now is lost, and the same shows what that left behind",
    ),
)


def check_server(info: Mapping[str, str], name: str, *, was_fit: bool = False) -> None:
    """Refuse a server that would lose or refuse data: from its INFO. Raises ServerNotUsable, ServerUnavailable.

    `was_fit`: it was looked at before. One that has become a replica since may be replaced, or be a primary again.
    """
    for rule in RULES:
        if rule.is_broken(info):
            error = ServerUnavailable if was_fit and rule.check == "role" else rule.error
            said = rule.refusal.format_map({**info, "doctor": doctor_of(name)})
            raise error(f"server {name} {said}{rule.later if was_fit else ''}")


# -- what doctor says of a server -------------------------------------------------------------------------------


def reply_or_error(link: Link, *words: Any) -> tuple[Any, str]:
    """The reply, or None and the error. Raises ServerUnavailable: that says nothing of what is permitted."""
    try:
        return link.command(*words), ""
    except ServerUnavailable:
        raise
    except SequencerError as error:
        return None, str(error)


def server_facts(link: Link) -> tuple[dict[str, str], dict[str, str], float]:
    """INFO, the settings that may be read, and by how many seconds its clock is ahead of ours."""
    text, _ = reply_or_error(link, "INFO")
    config: dict[str, str] = {}
    for name in ("appendfsync", "save", "min-replicas-to-write"):
        words, _ = reply_or_error(link, "CONFIG", "GET", name)
        if words:
            config[name] = words[1].decode("utf-8", "replace")
    before = time.time()
    moment, _ = reply_or_error(link, "TIME")
    ours = (before + time.time()) / 2
    ahead_s = int(moment[0]) + int(moment[1]) / 1e6 - ours if moment else 0.0
    return parse_info(text.decode("utf-8", "replace")) if text else {}, config, ahead_s


def server_findings(
    info: Mapping[str, str], config: Mapping[str, str], ahead_s: float, cli: str = "redis-cli"
) -> Iterator[Finding]:
    """What INFO, settings and clock say of a server; `cli`: how a line for a shell that fixes it begins. Pure."""
    if not info:
        yield Finding("version", "warning", "unknown, and so is all else: INFO is not permitted; grant +info")
        return
    words = {**info, "cli": cli}
    broken = {rule.check: rule.finding.format_map(words) for rule in reversed(RULES) if rule.is_broken(info)}

    def finding(check: str, ok: str) -> Finding:
        return Finding(check, "problem", broken[check]) if check in broken else Finding(check, "ok", ok)

    is_valkey = "valkey_version" in info
    version = info["valkey_version"] if is_valkey else info.get("redis_version", "?")
    yield finding("version", f"{'Valkey' if is_valkey else 'Redis'} {version}")
    yield finding("role", "a primary")
    if "loading" in broken:
        yield finding("loading", "")
    policy, size = info.get("maxmemory_policy", "noeviction"), info.get("maxmemory", "0")
    if policy.startswith("volatile-"):
        text = f"maxmemory-policy {policy}, maxmemory {size if size != '0' else 'not set'}: no key of sequencer has a "
        text += "time to live, so it evicts none; a backlog may drive out keys of others that have one"
        yield Finding("eviction", "warning", text)
    elif would_evict(info):
        yield Finding("eviction", "warning", NOT_YET.format_map(words))
    else:
        yield finding("eviction", f"noeviction, maxmemory {size if size != '0' else 'not set'}")
    if not _evicts(info):
        yield from memory_findings(info, cli)
    yield from _persistence(info, config)
    yield _replicas(info, config)
    level: Level = "warning" if abs(ahead_s) > MAX_CLOCK_OFF_S else "ok"
    side = "ahead of" if ahead_s > 0 else "behind"
    yield Finding(
        "clock", level, f"the server's is {abs(ahead_s):.3f} s {side} ours; delays and leases go by the server's"
    )


def is_full(info: Mapping[str, str]) -> bool:
    """Whether it refuses what needs room."""
    return int(info.get("used_memory", "0")) >= int(info.get("maxmemory", "0")) > 0


def memory_findings(info: Mapping[str, str], cli: str) -> Iterator[Finding]:
    """What is used of maxmemory, where that is set. At that the server refuses appends.

    What it refused before is counted by Redis 7 and Valkey; 6.2 counts what scripts asked for as another error.
    """
    used, limit = int(info.get("used_memory", "0")), int(info.get("maxmemory", "0"))
    if not (used and limit):
        return
    refused = int(found[1]) if (found := _REFUSED.match(info.get("errorstat_OOM", ""))) else 0
    full, is_nearly = is_full(info), used >= NEARLY_FULL * limit
    is_problem = full or (refused > 0 and used >= FULL_AGAIN * limit)
    level: Level = "problem" if is_problem else "warning" if is_nearly or refused else "ok"
    text = f"{used:,} bytes used of maxmemory {limit:,} ({int(100 * used / limit)}%)"
    said = f", and refused {many(refused, 'command')} for want of memory since it started, or since CONFIG RESETSTAT"
    said = said if refused else ""
    if is_problem:
        text = f"the server is {'full' if full else 'nearly full'} ({text}){said}: it refuses appends, and consumers "
        text += f"go on; let them make room (which queue waits: {command('info')}), or raise it"
    elif is_nearly:
        text += f"; when it is full it refuses appends{said}; to raise it"
    elif refused:
        text += f"{said}; see that producers append again what it refused; to count anew: {cli} CONFIG RESETSTAT"
    if is_problem or is_nearly:
        text += f": {cli} CONFIG SET maxmemory {max(2 * used, 2 * limit, LEAST_ROOM)}"
    yield Finding("memory", level, text)


def admin_command(endpoint: Endpoint) -> str:
    """How a line for a shell begins that sends a command to this server."""
    program = next((name for name in ("redis-cli", "valkey-cli") if which(name)), "")
    return server_command(endpoint.url or "", program, sys.executable)


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


def once_findings(
    queue: str, info: Mapping[str, str], config: Mapping[str, str], cli: str = "redis-cli"
) -> Iterator[Finding]:
    """What this server may lose of the starts of `once` steps, of which the queue has some: such a step runs twice."""
    has_file, fsync = info.get("aof_enabled") == "1", config.get("appendfsync", "?")
    said = (
        f"queue {queue} has steps that run once, and a crash of the server may lose the start of one, so that it runs "
    )
    if not has_file:
        yield Finding(
            "persistence", "warning", f"{said}twice: there is no append-only file; {cli} CONFIG SET appendonly yes"
        )
    elif fsync == "no":
        yield Finding(
            "persistence", "warning", f"{said}twice: appendfsync is no; {cli} CONFIG SET appendfsync everysec"
        )
    elif fsync != "always":
        text = f"{said}twice, within about its last second; {cli} CONFIG SET appendfsync always closes that"
        yield Finding("persistence", "ok", text)


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
