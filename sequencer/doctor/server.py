"""Whether a server is fit for queues: version, role, eviction, persistence, replicas, clock."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from shutil import which
from typing import Any

from ..errors import SequencerError, ServerNotUsable, ServerUnavailable
from ..net.link import Link
from ..net.sentinel import Sentinels, state_of
from ..texts.findings import Finding, finding
from ..texts.words import quoted

MAX_CLOCK_OFF_S = 1.0
"""By how much clocks may differ before that is said: more than any network between them takes."""


MIN_VERSION = (7, 0)
NEARLY_FULL = 0.9
"""Part of maxmemory from which on it is said, before appends are refused."""
FULL_AGAIN = 0.95
"""From here on a server that has refused commands is a problem: the next append that needs room is refused too."""


_OPTIONS = {"path": "-s", "host": "-h", "port": "-p", "db": "-n", "username": "--user"}
_OPTIONS |= {"ca_certs": "--cacert", "certfile": "--cert", "keyfile": "--key"}
"""Of a connection -> of redis-cli."""
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


def _evicts(info: Mapping[str, str]) -> bool:
    """Whether it deletes keys without a time to live, such as all of ours."""
    return info.get("maxmemory", "0") != "0" and _has_policy(info, "allkeys-")


def _has_policy(info: Mapping[str, str], start: str) -> bool:
    return info.get("maxmemory_policy", "").startswith(start)


def would_evict(info: Mapping[str, str]) -> bool:
    """Whether it evicts as soon as it has a maxmemory."""
    return _has_policy(info, "allkeys-") and not _evicts(info)


RULES: Mapping[str, tuple[str, Callable[[Mapping[str, str]], bool]]] = {
    "too old": ("is_too_old", lambda info: () < parse_version(info.get("redis_version", "")) < MIN_VERSION),
    "replica": ("is_replica", lambda info: info.get("role") == "slave"),
    "loading": ("is_loading", lambda info: info.get("loading") == "1"),
    "cluster": ("is_cluster", lambda info: info.get("cluster_enabled") == "1"),
    "evicts": ("is_evicting", _evicts),
}
"""Code of the finding -> that of the refusal, and whether the server is so, from its INFO. Each makes it unusable."""


def _broken(info: Mapping[str, str], **more: str) -> list[Finding]:
    fields = {"version": info.get("redis_version", ""), "policy": info.get("maxmemory_policy", ""), **more}
    return [finding(code, **fields) for code, (_, is_broken) in RULES.items() if is_broken(info)]


def eviction_to_come(info: Mapping[str, str], name: str) -> str:
    """What a client says of a server that will evict."""
    return finding("will evict", policy=info.get("maxmemory_policy", ""), server=name).text


def check_server(info: Mapping[str, str], name: str, *, was_fit: bool = False, is_cluster: bool = False) -> None:
    """Refuse a server that would lose or refuse data: from its INFO. Raises ServerNotUsable, ServerUnavailable.

    `was_fit`: it was checked before. One that has become a replica since may be replaced, or be a primary again.
    `is_cluster`: it is to be a node of one; such a replica says MOVED, and is no hindrance.
    """
    for one in [one for one in _broken(info) if not (is_cluster and one.check == "role")][:1]:
        is_away = one.code == "loading" or (was_fit and one.check == "role")
        kind = ServerUnavailable if is_away else ServerNotUsable
        raise kind(RULES[one.code][0], server=name, was_fit=was_fit, **one.fields)


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
    for name in ("appendfsync", "save", "min-replicas-to-write", "cluster-require-full-coverage"):
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
        yield finding("info denied")
        return
    broken = {one.check: one for one in reversed(_broken(info, cli=cli))}
    is_valkey = "valkey_version" in info
    version = info["valkey_version"] if is_valkey else info.get("redis_version", "?")
    yield broken.get("version") or finding("version", product="Valkey" if is_valkey else "Redis", version=version)
    yield broken.get("role") or finding("primary")
    if "loading" in broken:
        yield broken["loading"]
    size = info.get("maxmemory", "0")
    memory = {"policy": info.get("maxmemory_policy", "noeviction"), "maxmemory": size if size != "0" else "not set"}
    if _has_policy(info, "volatile-"):
        yield finding("volatile eviction", **memory)
    elif would_evict(info):
        yield finding("will evict", cli=cli, **memory)
    else:
        yield broken.get("eviction") or finding("no eviction", **memory)
    if not _evicts(info):
        yield from memory_findings(info, cli)
    yield _persistence(info, config)
    for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"):
        if info.get(name, "ok") != "ok":
            yield finding("disk write failed", name=name, status=info[name])
    yield _replicas(info, config)
    yield finding("server clock off" if abs(ahead_s) > MAX_CLOCK_OFF_S else "server clock", ahead_s=round(ahead_s, 6))


def sentinel_findings(sentinels: Sentinels) -> Iterator[Finding]:
    """What the Sentinels of a URL say of its primary."""
    found: dict[str, Finding] = {}
    for host, port in [*sentinels.places]:
        try:
            words, quorum, replicas = sentinels.ask((host, port), "MASTER", "CKQUORUM", "REPLICAS")
        except SequencerError as error:
            yield finding("sentinel away", sentinel=f"{host}:{port}", error=error.fields["error"])
            continue
        state, up = state_of(words), sum("down" not in state_of(one)["flags"] for one in replicas)
        about = {"count": int(state["num-other-sentinels"]) + 1, "quorum": int(state["quorum"]), "replicas": up}
        found["sentinels"] = finding("sentinels", primary=sentinels.primary, **about)
        refused = str(quorum) if isinstance(quorum, Exception) else ""
        if refused or not up:
            found["no failover"] = finding("no failover", primary=sentinels.primary, error=refused)
    yield from found.values()


def is_full(info: Mapping[str, str]) -> bool:
    """Whether it refuses what needs room."""
    return int(info.get("used_memory", "0")) >= int(info.get("maxmemory", "0")) > 0


def memory_findings(info: Mapping[str, str], cli: str) -> Iterator[Finding]:
    """What is used of maxmemory, where that is set. At that the server refuses appends."""
    used, limit = int(info.get("used_memory", "0")), int(info.get("maxmemory", "0"))
    if not (used and limit):
        return
    refused = int(found[1]) if (found := _REFUSED.match(info.get("errorstat_OOM", ""))) else 0
    code = "memory"
    if is_full(info) or (refused > 0 and used >= FULL_AGAIN * limit):
        code = "memory full"
    elif used >= NEARLY_FULL * limit:
        code = "memory nearly full"
    elif refused:
        code = "memory refused"
    yield finding(code, used=used, maxmemory=limit, refused=refused, cli=cli)


def admin_command(link: Link, key: str = "") -> str:
    """How a line for a shell begins that sends a command to this server and database; it asks for a password. Of a
    cluster it names the node that has the key.
    """
    cluster = link.endpoint.cluster
    places = [cluster.map.owner(("GET", key)), *cluster.places()] if cluster else []
    made = cluster.make(next(filter(None, places))) if cluster else link.connection()
    words = ["redis-cli" if which("redis-cli") else "valkey-cli", *(["--tls"] if hasattr(made, "ca_certs") else [])]
    words += ["-c"] if cluster else []
    given = {option: getattr(made, name, None) for name, option in _OPTIONS.items()}
    words += [word for option, value in given.items() if value for word in (option, str(value))]
    return " ".join(map(quoted, [*words, "--askpass"] if made.password else words))


def _persistence(info: Mapping[str, str], config: Mapping[str, str]) -> Finding:
    fsync = config.get("appendfsync")
    if info.get("aof_enabled") != "1":
        return finding("snapshots", save=config.get("save"))
    return finding("append-only file without fsync" if fsync == "no" else "append-only file", fsync=fsync)


def once_code(info: Mapping[str, str], config: Mapping[str, str]) -> str:
    """Code of what this server may lose of the starts of `once` steps; "" for nothing."""
    if info.get("aof_enabled") != "1":
        return "once without append-only file"
    fsync = config.get("appendfsync", "?")
    return {"no": "once without fsync", "always": ""}.get(fsync, "once with fsync each second")


def _replicas(info: Mapping[str, str], config: Mapping[str, str]) -> Finding:
    count, wanted = int(info.get("connected_slaves", "0")), config.get("min-replicas-to-write", "?")
    if not count and wanted in ("0", "?"):
        return finding("no replicas")
    code = "replicas may lag" if wanted == "0" else "replicas"
    if wanted.isdigit() and int(wanted) > count:
        code = "too few replicas"
    return finding(code, count=count, wanted=wanted)
