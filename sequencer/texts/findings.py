"""What doctor finds: every finding by its code, with its check, its level, its wording and the commands to run. Pure.

A wording names fields of the finding, as `fill` takes them. A finding of a queue has `queue` and `namespace`; its text
begins with the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

from .commands import doctor_of, with_commands
from .explanations import CONSUME, ENDING, no_consumers
from .templates import NO_COMMANDS, Commands, Fields, Wording, fill, filled_commands

Level = Literal["ok", "warning", "problem"]
LEAST_ROOM = 64 * 1024 * 1024
"""The smallest maxmemory ever suggested: connections and scripts alone need some."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: its `code` and `fields`, and whether this run of doctor repaired it."""

    code: str
    fields: Fields = field(default_factory=dict)
    repaired: bool = False

    @property
    def _kind(self) -> Kind:
        return FINDINGS[self.fields["of"] if self.code == "more" else self.code]

    @property
    def check(self) -> str:
        """The check that found it."""
        return self._kind.check

    @property
    def level(self) -> Level:
        """ "ok"; "warning" for what may be intended; "problem" for what has to be fixed."""
        return self._kind.level

    @property
    def commands(self) -> dict[str, str]:
        """What to run: purpose -> command line."""
        return {} if self.repaired or self.code == "more" else filled_commands(self._kind.commands, self.fields)

    @property
    def text(self) -> str:
        """One sentence for people, with the commands."""
        wording = "and {count:,} more like these" if self.code == "more" else self._kind.wording
        text = wording if isinstance(wording, str) else wording(self.fields)
        about = "{node:?node {node}: }{queue:?queue {queue}: }{group:?group {group}: }"
        text = about + text + ("; repaired" if self.repaired else "")
        if self.repaired and self._kind.repair:
            text += f": {self._kind.repair}"
        return with_commands(fill(text, self.fields), self.commands)

    def as_json(self) -> dict[str, Any]:
        """What `doctor --json` prints."""
        said = {name: getattr(self, name) for name in ("code", "check", "level", "repaired", "text", "commands")}
        return {**said, "fields": dict(self.fields)}


def finding(code: str, repaired: bool = False, /, **fields: Any) -> Finding:
    return Finding(code, fields, repaired)


# -- commands and wordings that a template can't hold ------------------------------------------------------------


def _config(name: str, value: str) -> Commands:
    """Of a server: `cli` begins the line for a shell; without it, doctor has that."""
    setting = f"CONFIG SET {name} {value}"
    return lambda fields: (
        {"fix": f"{{cli}} {setting}"} if "cli" in fields else {"fix": setting, "inspect": doctor_of(fields["server"])}
    )


def _room(fields: Fields) -> dict[str, str]:
    size = max(2 * fields["used"], 2 * fields["maxmemory"], LEAST_ROOM)
    return {"fix": f"{{cli}} CONFIG SET maxmemory {size}"}


def _appended(fields: Fields) -> str:
    if fields["fsync"] not in _LOSES:
        return "appendonly yes; appendfsync unknown, as CONFIG GET is not permitted"
    return f"appendonly yes, appendfsync {{fsync}}: a crash {_LOSES[fields['fsync']]}"


def _snapshots(fields: Fields) -> str:
    return _SNAPSHOTS.get(fields["save"], "snapshots only: a crash may lose everything since the last one")


def _keep_or_delete(fields: Fields) -> dict[str, str]:
    """Nothing renames keys from one hash slot of a cluster to another."""
    keep = (
        "{sequencer configure TO --on-late handle}; " + _KEYS + " | grep -vxF -e '{unmoved[0]}' -e '{unmoved[1]}' | "
        'while IFS= read -r key; do {cli} RENAME "$key" \'{to_prefix}\'"${{key#*\\}}:}}"; done'
    )
    delete = _KEYS + " | tr '\\n' '\\0' | xargs -0 {cli} UNLINK"
    return {"keep": keep, "delete": delete} if fields["to"] else {"delete": delete}


_USED = "{used:,} bytes of maxmemory {maxmemory:,} used{refused:?; it refused {refused:command} since it started}"
_LOSES = {
    "always": "loses nothing that was acknowledged",
    "everysec": "may lose about the last second",
    "no": "may lose what the operating system has not written yet, about half a minute",
}
"""appendfsync -> what a crash loses."""
_SNAPSHOTS = {
    None: "no append-only file; snapshots unknown, as CONFIG GET is not permitted: a crash may lose everything",
    "": "neither an append-only file nor snapshots: a crash may lose everything",
}
"""The setting `save` -> the wording without an append-only file."""
_ONCE = "has `once` steps; a server crash may lose the start of one, so that it runs twice: "
_KEYS = "{has_password:?export REDISCLI_AUTH=PASSWORD; }{cli} --scan --pattern '{prefix}*'"
_REPAIR = {"fix": "sequencer doctor QUEUE --repair"}


class Kind(NamedTuple):
    """What all findings of one code have in common."""

    level: Level
    check: str
    wording: Wording
    commands: Commands = NO_COMMANDS
    repair: str = ""
    """What a repair did."""


_BROKEN = {
    "outage without start": ("outage", "{policy} has probe_us {value!r}, but {key} has no outage", "removed"),
    "outage without probe": ("outage", "{key} has an outage, but {policy} has no probe_us", "removed"),
    "dead letter without content": ("dead letters", "dead letter {letter!r} has no content", "removed from the list"),
    "dead letter unlisted": ("dead letters", "dead letter {letter!r} is not in the list", "added to the list"),
    "dead letter ledger broken": (
        "dead letters",
        "ledger of dead letter {letter!r}: {detail}; if redriven, it parks",
        "",
    ),
    "skipped ledger broken": (
        "dead letters",
        "ledger of the last skip, {letter!r}: {detail}; if put back, it parks",
        "",
    ),
    "message without record": (
        "messages",
        "{id!r}, score {detail}, is in the order without a record",
        "removed from it",
    ),
    "record without place": (
        "messages",
        "the record of {id!r} has no place in the order",
        "now a dead letter (Broken)",
    ),
    "record differs": ("messages", "record of {id!r} has stamp and attempts {detail!r}", "stamp taken from the order"),
    "score differs": (
        "messages",
        "record of {id!r}: its score is its stamp, but the stamp is {detail}",
        "score taken from the order",
    ),
    "ledger broken": ("messages", "the ledger of {id!r} {detail}; it will park", ""),
    "empty group scheduled": ("schedule", "0 messages, but in the schedule", "removed from the schedule"),
    "group unscheduled": ("schedule", "has messages but is not in the schedule, so no consumer sees it", "due now"),
    "group unscheduled behind a failure": ("schedule", "has failed, but is not in the schedule", "parked; resume it"),
    "parked without reason": ("schedule", "is parked without a failure or a missing number", "due now"),
    "paused without entry": ("schedule", "is held as paused, but is not among the paused groups", "due now"),
    "lease without group": ("leases", "has a lease but is not in the schedule", "lease removed"),
    "lease unreadable": ("leases", "its lease has an unreadable token, or one ahead: {detail!r}", "lease removed"),
    "leased and parked": ("leases", "is leased and parked at once: {detail!r}", "lease removed"),
    "failure without group": ("failures", "has a failure but is not in the schedule", "failure removed"),
    "stamp ahead of clock": ("clock", "has a stamp or token {detail} ahead of the clock", "clock set forward"),
    "shard clock unreadable": (
        "clock",
        "the shard's clock {name!r} can't be read: {detail!r}",
        "set to the server's time",
    ),
}
"""Broken invariants: code -> check, wording, what a repair does."""
_ok, _warning, _problem = partial(Kind, "ok"), partial(Kind, "warning"), partial(Kind, "problem")


FINDINGS: Mapping[str, Kind] = {
    # the server
    "version": _ok("version", "{product} {version}"),
    "too old": _problem("version", "is Redis {version}; 7.0 or later, or Valkey, is needed"),
    "info denied": _warning("version", "unknown, and nothing else can be checked: INFO is not permitted; grant +info"),
    "primary": _ok("role", "a primary"),
    "replica": _problem("role", "is a replica; connect to the primary"),
    "cluster": _problem("role", "is a node of a cluster; connect with redis+cluster://HOST:PORT instead"),
    "loading": _problem("loading", "is loading its data; try again"),
    "no eviction": _ok("eviction", "noeviction, maxmemory {maxmemory}"),
    "evicts": _problem(
        "eviction",
        "evicts keys (maxmemory-policy {policy}), which silently deletes parts of groups",
        _config("maxmemory-policy", "noeviction"),
    ),
    "will evict": _warning(
        "eviction",
        "maxmemory-policy {policy} silently deletes parts of groups as soon as maxmemory is set",
        _config("maxmemory-policy", "noeviction"),
    ),
    "volatile eviction": _warning(
        "eviction",
        "maxmemory-policy {policy}, maxmemory {maxmemory}: keys of sequencer have no time to live, so none is evicted; "
        "but a backlog may evict keys of others that have one",
    ),
    "memory": _ok("memory", _USED),
    "memory refused": _warning(
        "memory", _USED + "; producers must repeat the appends that were refused", {"reset": "{cli} CONFIG RESETSTAT"}
    ),
    "memory nearly full": _warning("memory", _USED + "; a full server refuses appends", _room),
    "memory full": _problem(
        "memory",
        _USED + "; it refuses appends until consumers free memory or maxmemory is raised",
        _room,
    ),
    "repair needs room": _warning(
        "memory",
        "a full server refuses repairs that need memory; make room first",
        {"fix": "sequencer doctor QUEUES --repair"},
    ),
    "append-only file": _ok("persistence", _appended),
    "append-only file without fsync": _warning("persistence", _appended),
    "snapshots": _warning("persistence", _snapshots),
    "disk write failed": _problem("persistence", "{name} is {status}: it can't write to disk; check its log"),
    "once without append-only file": _warning(
        "persistence", f"{_ONCE}there is no append-only file", _config("appendonly", "yes")
    ),
    "once without fsync": _warning("persistence", f"{_ONCE}appendfsync is no", _config("appendfsync", "everysec")),
    "once with fsync each second": _ok(
        "persistence", f"{_ONCE}one started in its last second", _config("appendfsync", "always")
    ),
    "no replicas": _ok("replicas", "none connected"),
    "replicas": _ok("replicas", "{count} connected, min-replicas-to-write {wanted}"),
    "replicas may lag": _warning(
        "replicas",
        "{count} connected, min-replicas-to-write 0: a failover may lose what they have not yet received; 1 bounds it",
    ),
    "too few replicas": _problem(
        "replicas", "{count} connected, min-replicas-to-write {wanted}: the server refuses writes"
    ),
    "sentinels": _ok("sentinel", "primary {primary}: {count:Sentinel}, quorum {quorum}, {replicas:replica}"),
    "sentinel away": _warning("sentinel", "{sentinel} can't be asked: {error}"),
    "no failover": _problem(
        "sentinel", "primary {primary} would not be replaced: {error:?{error}}{error:!no replica is up}"
    ),
    "nodes": _ok("cluster", "primaries: {primaries}, replicas: {replicas}"),
    "node away": _problem("cluster", "can't be used: {error}"),
    "full coverage required": _problem(
        "cluster",
        "cluster-require-full-coverage is yes: while any shard of the cluster is away, all queues stop",
        {"fix": "{cli} CONFIG SET cluster-require-full-coverage no"},
    ),
    "slots unassigned": _problem(
        "cluster",
        "{count:hash slot} belong to no node: their shards stand still",
        {"fix": "{cli} --cluster fix {place}"},
    ),
    "primary without replica": _warning("cluster", "no replica: while the primary is away, its shards stand still"),
    "slots moving": _warning(
        "cluster",
        "hash slots being moved from or to it: {slots:list}; their shards pause until the move ends",
        {"finish": "{cli} --cluster fix {place}"},
    ),
    "scripts broken": _problem(
        "cluster", "can no longer run scripts ({error}): a script of another program broke that; restart the node"
    ),
    "node clocks apart": _warning(
        "clock", "{ahead} is {apart_s:.1f} s ahead of {behind}; delays and leases follow the clock of a shard's node"
    ),
    "server clock": _ok("clock", "differs from this host's by {ahead_s:+.3f} s"),
    "server clock off": _warning(
        "clock", "differs from this host's by {ahead_s:+.3f} s; delays and leases follow the server's"
    ),
    "rights": _ok("rights", "the user may run every command and script"),
    "rights missing": _problem("rights", "the user lacks {rights}; grant it with ACL SETUSER"),
    "command refused": _problem("rights", "{command}: {error}"),
    # queues
    "not checked": _warning("queues", "not checked, because this server can't hold queues in its current state"),
    "not listed": _problem("queues", "can't be listed: {error}"),
    "never used": _warning("queues", "was never used here; check its name"),
    "no queues": _ok("queues", "none in namespace {namespace!r}"),
    "foreign index": _problem(
        "queues",
        "{index} lists the queues, but something else wrote a key of another type there; delete it: queues in use are "
        "back in it within a minute, all others after a repair",
        {"delete": "{cli} DEL {index:quoted}", "repair": "sequencer doctor --repair"},
    ),
    "invalid name": _problem(
        "queues",
        "{index} has {name!r}, which is not a valid queue name; lists omit it",
        {"fix": "{cli} HDEL {index:quoted} {name:quoted}"},
    ),
    "not in index": _problem("queues", "has keys, but is missing from {index}", _REPAIR),
    "registration unreadable": _problem(
        "queues", "{key} can't be read ({error})", {"delete": "{deletable:?{cli} DEL {key:quoted}}"}
    ),
    "deletion unfinished": _problem("queues", "its deletion did not finish", {"fix": "sequencer delete QUEUE --yes"}),
    "shard outdated": _warning(
        "queues",
        "shard {shard} has {generation:?generation {generation}, version {version}}{generation:!no policy}, not "
        "generation {wanted_generation}, version {wanted_version} as registered; the next client that uses the queue "
        "fixes it",
    ),
    "shard policy differs": _problem("queues", "{key} has another policy than registered ({differences})", _REPAIR),
    "unknown shard": _problem(
        "queues",
        "has {known:shard}, so no client reads shard {shard}: it holds {groups:group} and {dead:dead letter}; "
        "{to:?keep them as queue {to}, or }delete them",
        _keep_or_delete,
    ),
    "registry lost": _warning(
        "queues",
        "its shards have a policy, but {key} is lost; any client that uses the queue restores it within a minute",
    ),
    "unregistered": _problem(
        "queues",
        "has keys in {shards:shard}, but neither a registration nor a policy: a program that already uses it will "
        "register it again. Without one, the policy is lost: stop the consumers, register the queue, and configure it "
        "before they start",
        {
            "register": "{cli} DEL {clock:quoted} && {sequencer append QUEUE /dev/null --shards SHARDS} && "
            "{sequencer doctor QUEUE --repair}"
        },
    ),
    "first shard lost": _problem("queues", "{key} and {policy} are lost; shard {shard} has a copy", _REPAIR, "copied"),
    "shards by node": _ok("cluster", "shards by node: {nodes:list}"),
    "shards unreachable": _problem("cluster", "shards {unreachable:list} can't be reached: {error}"),
    # the state of a queue
    "unchecked": _problem("invariants", "the check did not finish: {error}"),
    "unreadable": _problem("keys", "{key} can't be read ({error}); correct it with HSET"),
    "watermark unreadable": _problem(
        "keys", "{key} has {value!r}, which is not a watermark such as {example}; correct it with HSET"
    ),
    "shard clock ahead": _warning(
        "clock",
        "a shard's clock is {ahead_s:.1f} s ahead of the server's time, which was set back; leases of dead consumers "
        "and delays end that much later",
    ),
    "outage": _warning(
        "outage",
        "shard {shard} of {shards} is held back by an outage: {error}; {probes:probe} failed, next in {probe_in_s:.1f} "
        "s",
        {"probe": "sequencer resume QUEUE --outage"},
    ),
    "held long": _warning(
        "leases",
        f"leased by {{owner}} for {{held_s:.0f}} s; {ENDING}; set --handler-timeout to prevent that",
        {"inspect": "sequencer explain QUEUE GROUP"},
    ),
    "parked groups": _warning("parked", "{count:parked group}", {"inspect": "sequencer parked QUEUE --by-error"}),
    "no consumers": _warning("consumers", no_consumers, {"consume": CONSUME}),
    "mixed score units": _warning(
        "scores",
        "scores look like times in different units: {units:list}; messages already handled are not reordered",
        {
            "fix": "in this order: {sequencer pause QUEUE}; let all producers send one unit; for each message in "
            "another: {sequencer reschedule QUEUE PART --id ID --score SCORE --delay 0}; {sequencer unpause QUEUE}"
        },
    ),
    "ids": _ok(
        "ids",
        "{count:id} of handled messages remembered, about {bytes:,} bytes; dedup_window={window_s:g} s needs up to "
        "{bytes_a_second:,.0f} bytes per message per second",
    ),
    "ids capped": _warning(
        "ids",
        "{count:id} of handled messages remembered; dedup_cap={cap:,} cuts dedup_window={window_s:g} s short, so "
        "repeats may be handled again",
        {"fix": "sequencer configure QUEUE --dedup-cap MORE"},
    ),
    # its invariants
    "sound": _ok("invariants", "all hold (groups: {groups:,}, messages: {messages:,})"),
    "repaired": _ok("invariants", "{repaired_count:,} repaired, 0 left (groups: {groups:,}, messages: {messages:,})"),
    "broken": _problem(
        "invariants",
        "{repaired_count:,} repaired, {left:,} left (groups: {groups:,}, messages: {messages:,})",
        lambda fields: _REPAIR if fields["fixable"] else {},
    ),
    "removed": _warning(
        "messages",
        "removed: {messages:message} without content, {groups:group} without any message; append what is lost again "
        "from its source; ids known as handled within dedup_window are not added twice",
    ),
    "wrong type": _problem("keys", "{key!r} is of type {type}, not {wanted}; rename or delete it"),
    "guard key": _problem(
        "keys",
        "{key!r} must not exist: with it, a script runs on half of a shard while its hash slot is moved",
        {"delete": "{cli} DEL {key:quoted}"},
    ),
    "unknown key": _problem("keys", "unknown key {key!r}; not written by sequencer"),
    "history unlisted": _problem("keys", "history {key!r} is not listed, so it would stay for ever", repair="listed"),
    **{code: _problem(check, wording, repair=repair) for code, (check, wording, repair) in _BROKEN.items()},
}
"""Code -> kind of finding. "more" summarizes further findings of the code `of`."""
