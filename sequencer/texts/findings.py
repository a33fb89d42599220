"""What doctor finds: every finding by its code, with its check, its level, its wording and the commands to run. Pure.

A wording names fields of the finding, as `fill` takes them. A finding of a queue has `queue` and `namespace`; its text
begins with the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from .commands import command, doctor_of, to_one_unit, with_commands
from .explanations import ending, mixed, no_consumers_text, start_consumers
from .words import fill, many, named, quoted

Level = Literal["ok", "warning", "problem"]
Fields = Mapping[str, Any]
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
    def group(self) -> tuple[str, ...]:
        """The group it is about, if any."""
        return tuple(self.fields.get("group", ()))

    @property
    def id(self) -> str:
        """The message or dead letter it is about, if any."""
        return str(self.fields.get("id", ""))

    @property
    def commands(self) -> dict[str, str]:
        """What to run: purpose -> command line."""
        return {} if self.repaired or self.code == "more" else dict(self._kind.commands(self.fields))

    @property
    def text(self) -> str:
        """One sentence for people, with the commands."""
        wording = "and {count:,} more like these" if self.code == "more" else self._kind.wording
        text = wording(self.fields) if callable(wording) else fill(wording, self.fields)
        if self.group:
            text = f"group {named(self.group)}: {text}"
        if "queue" in self.fields:
            text = f"queue {self.fields['queue']}: {text}"
        if self.repaired:
            text += f"; repaired: {self._kind.repair}" if self._kind.repair else "; repaired"
        return with_commands(text, self.commands)

    def as_json(self) -> dict[str, Any]:
        """What `doctor --json` prints."""
        said = {name: getattr(self, name) for name in ("code", "check", "level", "repaired", "text", "commands")}
        return {**said, "fields": dict(self.fields)}


def finding(code: str, repaired: bool = False, /, **fields: Any) -> Finding:
    return Finding(code, fields, repaired)


# -- commands ---------------------------------------------------------------------------------------------------


def _none(_: Fields) -> Mapping[str, str]:
    return {}


def _line(fields: Fields, name: str, *values: str, options: list[str] | None = None) -> str:
    return command(name, *values, namespace=fields["namespace"], options=options or [])


def _of_queue(fields: Fields, name: str, *values: str, options: list[str] | None = None) -> str:
    return _line(fields, name, fields["queue"], *values, options=options)


def _repair(fields: Fields) -> Mapping[str, str]:
    return {"fix": _of_queue(fields, "doctor", options=["--repair"])}


def _config(name: str, value: str) -> Callable[[Fields], Mapping[str, str]]:
    """Of a server: `cli` begins the line for a shell; without it, doctor has that."""

    def commands(fields: Fields) -> Mapping[str, str]:
        setting = f"CONFIG SET {name} {value}"
        if "cli" in fields:
            return {"fix": f"{fields['cli']} {setting}"}
        return {"fix": setting, "inspect": doctor_of(fields["server"])}

    return commands


def _room(fields: Fields) -> dict[str, str]:
    size = max(2 * fields["used"], 2 * fields["maxmemory"], LEAST_ROOM)
    return {"fix": f"{fields['cli']} CONFIG SET maxmemory {size}"}


def _unknown_shard(fields: Fields) -> Mapping[str, str]:
    keys = f"redis-cli --scan --pattern '{fields['prefix']}*'"
    delete = {"delete": f"{keys} | tr '\\n' '\\0' | xargs -0 redis-cli UNLINK"}
    if not (fields["groups"] or fields["dead"]):
        return delete
    make = _line(fields, "configure", fields["to"], options=["--on-late", "handle"])
    moved = f'while IFS= read -r key; do redis-cli RENAME "$key" \'{fields["to_prefix"]}\'"${{key#*\\}}:}}"; done'
    unmoved = " ".join(f"-e '{key}'" for key in fields["unmoved"])
    return {"keep": f"{make}; {keys} | grep -vxF {unmoved} | {moved}", **delete}


def _registering(fields: Fields) -> Mapping[str, str]:
    make = _of_queue(fields, "append", "/dev/null", options=["--shards", str(fields["shards"])])
    clear = f"{fields['cli']} DEL {quoted(fields['clock'])}"
    return {"register": f"{clear} && {make} && {_repair(fields)['fix']}"}


def _watermark_unit(fields: Fields) -> Mapping[str, str]:
    forget, keep = (
        _of_queue(fields, "configure", options=["--watermark-window", f"{seconds:.15g}"])
        for seconds in (0.001, fields["window_s"])
    )
    return {"forget": forget, "restore": keep}


# -- wordings that a template can't hold ----------------------------------------------------------------------


def _refused(fields: Fields) -> str:
    return f"; it refused {many(fields['refused'], 'command')} since it started" if fields["refused"] else ""


def _full(fields: Fields) -> str:
    state = "full" if fields["used"] >= fields["maxmemory"] else "nearly full"
    said = fill(f"the server is {state} ({_USED})", fields)
    return f"{said}{_refused(fields)}; it refuses appends until consumers free memory or maxmemory is raised"


def _appended(fields: Fields) -> str:
    if fields["fsync"] not in _LOSES:
        return "appendonly yes; appendfsync unknown, as CONFIG GET is not permitted"
    return fill("appendonly yes, appendfsync {fsync}: a crash ", fields) + _LOSES[fields["fsync"]]


def _snapshots(fields: Fields) -> str:
    return _SNAPSHOTS.get(fields["save"], "snapshots only: a crash may lose everything since the last one")


def _lost(fields: Fields) -> str:
    gone = [many(fields[name], noun) for name, noun in (("messages", "message"), ("groups", "whole group"))]
    some = " and ".join(one for one in gone if not one.startswith("0 "))
    again = "append them again from their source; ids known as handled within dedup_window are not added twice"
    return f"removed, as their content is lost: {some}; {again}"


_USED = "{used:,} bytes of maxmemory {maxmemory:,} used"
_LOSES = {
    "always": "loses nothing that was acknowledged",
    "everysec": "may lose about the last second",
    "no": "may lose what the operating system has not written yet, about half a minute",
}
"""appendfsync -> what a crash loses."""
_SNAPSHOTS = {
    None: "no append-only file; snapshots unknown, as CONFIG GET is not permitted: a crash may lose everything",
    "": "none: a crash may lose everything",
}
"""The setting `save` -> the wording without an append-only file."""
_ONCE = "has `once` steps; a server crash may lose the start of one, so that it runs twice: "
_NEXT_CLIENT = "the next client that uses the queue fixes it"


class Kind(NamedTuple):
    """What all findings of one code have in common."""

    check: str
    level: Level
    wording: str | Callable[[Fields], str]
    commands: Callable[[Fields], Mapping[str, str]] = _none
    repair: str = ""
    """What a repair did."""


def _broken(check: str, kinds: Mapping[str, tuple[str | Callable[[Fields], str], str]]) -> dict[str, Kind]:
    """Broken invariants, with what their repair does."""
    return {code: Kind(check, "problem", wording, repair=repair) for code, (wording, repair) in kinds.items()}


FINDINGS: Mapping[str, Kind] = {
    # the server
    "version": Kind("version", "ok", "{product} {version}"),
    "too old": Kind("version", "problem", "is Redis {version}; 7.0 or later, or Valkey, is needed"),
    "info denied": Kind(
        "version", "warning", "unknown, and nothing else can be checked: INFO is not permitted; grant +info"
    ),
    "primary": Kind("role", "ok", "a primary"),
    "replica": Kind("role", "problem", "is a replica; connect to the primary"),
    "cluster": Kind("role", "problem", "runs in cluster mode, which is not supported yet"),
    "loading": Kind("loading", "problem", "is loading its data; try again"),
    "no eviction": Kind("eviction", "ok", "noeviction, maxmemory {maxmemory}"),
    "evicts": Kind(
        "eviction",
        "problem",
        "evicts keys (maxmemory-policy {policy}), which silently deletes parts of groups",
        _config("maxmemory-policy", "noeviction"),
    ),
    "will evict": Kind(
        "eviction",
        "warning",
        "maxmemory-policy {policy} silently deletes parts of groups as soon as maxmemory is set",
        _config("maxmemory-policy", "noeviction"),
    ),
    "volatile eviction": Kind(
        "eviction",
        "warning",
        "maxmemory-policy {policy}, maxmemory {maxmemory}: keys of sequencer have no time to live, so none is evicted; "
        "but a backlog may evict keys of others that have one",
    ),
    "memory": Kind("memory", "ok", _USED),
    "memory refused": Kind(
        "memory",
        "warning",
        lambda fields: fill(_USED, fields) + _refused(fields) + "; producers must repeat the appends that were refused",
        lambda fields: {"reset": f"{fields['cli']} CONFIG RESETSTAT"},
    ),
    "memory nearly full": Kind(
        "memory",
        "warning",
        lambda fields: fill(_USED, fields) + _refused(fields) + "; a full server refuses appends",
        _room,
    ),
    "memory full": Kind("memory", "problem", _full, lambda fields: {"inspect": command("info"), **_room(fields)}),
    "repair needs room": Kind(
        "memory",
        "warning",
        "a full server refuses repairs that need memory; make room first",
        lambda fields: {"fix": _line(fields, "doctor", *fields["queues"], options=["--repair"])},
    ),
    "append-only file": Kind("persistence", "ok", _appended),
    "append-only file without fsync": Kind("persistence", "warning", _appended),
    "snapshots": Kind("persistence", "warning", _snapshots),
    "disk write failed": Kind("persistence", "problem", "{name} is {status}: it can't write to disk; check its log"),
    "once without append-only file": Kind(
        "persistence", "warning", f"{_ONCE}there is no append-only file", _config("appendonly", "yes")
    ),
    "once without fsync": Kind(
        "persistence", "warning", f"{_ONCE}appendfsync is no", _config("appendfsync", "everysec")
    ),
    "once with fsync each second": Kind(
        "persistence", "ok", f"{_ONCE}one started in its last second", _config("appendfsync", "always")
    ),
    "no replicas": Kind("replicas", "ok", "none connected"),
    "replicas": Kind("replicas", "ok", "{count} connected, min-replicas-to-write {wanted}"),
    "replicas may lag": Kind(
        "replicas",
        "warning",
        "{count} connected, min-replicas-to-write 0: a failover may lose what they have not yet received; 1 bounds it",
    ),
    "too few replicas": Kind(
        "replicas", "problem", "{count} connected, min-replicas-to-write {wanted}: the server refuses writes"
    ),
    "server clock": Kind("clock", "ok", "differs from this host's by {ahead_s:+.3f} s"),
    "server clock off": Kind(
        "clock", "warning", "differs from this host's by {ahead_s:+.3f} s; delays and leases follow the server's"
    ),
    "rights": Kind("rights", "ok", "the user may run every command and script"),
    "rights missing": Kind("rights", "problem", "the user lacks {rights}; grant it with ACL SETUSER"),
    "command refused": Kind("rights", "problem", "{command}: {error}"),
    # queues
    "not checked": Kind("queues", "warning", "not checked, because this server can't hold queues in its current state"),
    "not listed": Kind("queues", "problem", "can't be listed: {error}"),
    "never used": Kind("queues", "warning", "was never used here; check its name"),
    "no queues": Kind("queues", "ok", "none in namespace {namespace!r}"),
    "foreign index": Kind("queues", "problem", "{said}"),
    "invalid name": Kind(
        "queues",
        "problem",
        "{index} has {name!r}, which is not a valid queue name; lists omit it",
        lambda fields: {"fix": f"HDEL {fields['index']} {quoted(fields['name'])}"},
    ),
    "index value foreign": Kind(
        "queues",
        "problem",
        "{index} has the unknown value {value!r} for it, so lists omit it; the next client that uses the queue fixes "
        "it",
        _repair,
    ),
    "not in index": Kind("queues", "problem", "has keys, but is missing from {index}", _repair),
    "registration unreadable": Kind(
        "queues",
        "problem",
        "{key} can't be read ({error})",
        lambda fields: {"delete": f"DEL {fields['key']}"} if fields["deletable"] else {},
    ),
    "deletion unfinished": Kind(
        "queues",
        "problem",
        "its deletion did not finish",
        lambda fields: {"fix": _of_queue(fields, "delete", options=["--yes"])},
    ),
    "shard without policy": Kind("queues", "warning", f"shard {{shard}} has no policy; {_NEXT_CLIENT}"),
    "shard outdated": Kind(
        "queues",
        "warning",
        "shard {shard} has generation {generation}, version {version}, not {wanted_generation}, {wanted_version} as "
        f"registered; {_NEXT_CLIENT}",
    ),
    "shard policy differs": Kind(
        "queues", "problem", "{key} has another policy than registered ({differences})", _repair
    ),
    "shard policy unpacked": Kind(
        "queues", "problem", f"field packed of {{key}} does not match its other fields; {_NEXT_CLIENT}", _repair
    ),
    "unknown shard": Kind(
        "queues",
        "problem",
        "has {known:shard}, so no client reads shard {shard}: it holds {messages:message} in {groups:group} and "
        "{dead:dead letter}; keep them as queue {to}, or delete them",
        _unknown_shard,
    ),
    "registry lost": Kind(
        "queues",
        "warning",
        "its shards have a policy, but {key} is lost; any client that uses the queue restores it within a minute",
    ),
    "unregistered": Kind(
        "queues",
        "problem",
        "has keys in {shards:shard}, but neither a registration nor a policy: a program that already uses it will "
        "register it again. Without one, the policy is lost: stop the consumers, register the queue, and configure it "
        "before they start",
        _registering,
    ),
    "first shard lost": Kind(
        "queues", "problem", "{key} and {policy} are lost; shard {shard} has a copy", _repair, "copied"
    ),
    # the state of a queue
    "unchecked": Kind("invariants", "problem", "the check did not finish: {error}"),
    "unreadable": Kind("keys", "problem", "{key} can't be read ({error}); correct it with HSET"),
    "watermark unreadable": Kind(
        "keys",
        "problem",
        "{key} has {value!r}, which is not a watermark such as {example}; correct it with HSET",
    ),
    "shard clock ahead": Kind(
        "clock",
        "warning",
        "a shard's clock is {ahead_s:.1f} s ahead of the server's time, which was set back; leases of dead consumers "
        "and delays end that much later",
    ),
    "outage": Kind(
        "outage",
        "warning",
        "shard {shard} of {shards} is held back by an outage: {error}; {probes:probe} failed, next in {probe_in_s:.1f} "
        "s",
        lambda fields: {"probe": _of_queue(fields, "resume", options=["--outage"])},
    ),
    "held long": Kind(
        "leases",
        "warning",
        lambda fields: (
            fill("leased by {owner} for {held_s:.0f} s; ", fields)
            + f"{ending(fields['owner'])}; set --handler-timeout to prevent that"
        ),
        lambda fields: {"inspect": _of_queue(fields, "explain", *fields["group"])},
    ),
    "parked groups": Kind(
        "parked", "warning", "{count:parked group}", lambda fields: {"inspect": _of_queue(fields, "parked")}
    ),
    "no consumers": Kind(
        "consumers",
        "warning",
        no_consumers_text,
        lambda fields: {"consume": start_consumers(fields["queue"], fields["namespace"])},
    ),
    "mixed score units": Kind(
        "scores",
        "warning",
        lambda fields: mixed(fields["examples"]) + "; messages already handled are not reordered",
        lambda fields: {"fix": to_one_unit(fields["queue"], fields["namespace"])},
    ),
    "watermark unit": Kind(
        "scores",
        "warning",
        "its watermark looks like a time in {unit} ({mark:.17g}), others in {others}: messages in {lowest} count as "
        "late there. Once all producers send one unit, forget the watermarks; once some messages were handled, restore "
        "the window",
        _watermark_unit,
    ),
    "ids": Kind(
        "ids",
        "ok",
        "{count:id} of handled messages remembered, about {bytes:,} bytes; dedup_window={window_s:g} s needs up to "
        "{bytes_a_second:,.0f} bytes per message per second",
    ),
    "ids capped": Kind(
        "ids",
        "warning",
        "{count:id} of handled messages remembered; dedup_cap={cap:,} cuts dedup_window={window_s:g} s short, so "
        "repeats may be handled again",
        lambda fields: {"fix": _of_queue(fields, "configure", options=["--dedup-cap", str(4 * fields["cap"])])},
    ),
    # its invariants
    "sound": Kind("invariants", "ok", "all hold (groups: {groups:,}, messages: {messages:,})"),
    "repaired": Kind(
        "invariants", "ok", "{repaired_count:,} repaired, 0 left (groups: {groups:,}, messages: {messages:,})"
    ),
    "broken": Kind(
        "invariants",
        "problem",
        "{repaired_count:,} repaired, {left:,} left (groups: {groups:,}, messages: {messages:,})",
        lambda fields: {} if fields["is_repair"] else _repair(fields),
    ),
    "limit reached": Kind(
        "invariants",
        "warning",
        "stopped at the limit of {limit:name}; groups read: {groups:,}, messages: {messages:,}",
    ),
    "removed": Kind("messages", "warning", _lost),
    "wrong type": Kind("keys", "problem", "{key!r} is of type {type}, not {wanted}; rename or delete it"),
    "unknown key": Kind("keys", "problem", "unknown key {key!r}; not written by sequencer"),
    "history unlisted": Kind("keys", "problem", "history {key!r} is not listed, so it would never be deleted"),
    "dispatch of wrong type": Kind("keys", "problem", "the dispatch list {key} is a {type}; it can be deleted"),
    **_broken(
        "outage",
        {
            "outage without start": ("{policy} has probe_us {value!r}, but {key} has no outage", "removed"),
            "outage without probe": ("{key} has an outage, but {policy} has no probe_us", "removed"),
        },
    ),
    **_broken(
        "dead letters",
        {
            "dead letter without content": ("dead letter {letter!r} has no content", "removed from the list"),
            "dead letter unlisted": ("dead letter {letter!r} is not in the list", "added to the list"),
            "dead letter ledger broken": ("ledger of dead letter {letter!r}: {detail}; if redriven, it parks", ""),
            "skipped ledger broken": ("ledger of the last skip, {letter!r}: {detail}; if put back, it parks", ""),
        },
    ),
    **_broken(
        "messages",
        {
            "message without record": ("{id!r}, score {detail}, is in the order without a record", "removed from it"),
            "record without place": ("the record of {id!r} has no place in the order", "now a dead letter (Broken)"),
            "record differs": ("record of {id!r} has stamp and attempts {detail!r}", "stamp taken from the order"),
            "score differs": (
                "record of {id!r}: its score is its stamp, but the stamp is {detail}",
                "score taken from the order",
            ),
            "ledger broken": ("the ledger of {id!r} {detail}; it will park", ""),
        },
    ),
    **_broken(
        "schedule",
        {
            "empty group scheduled": ("0 messages, but in the schedule", "removed from the schedule"),
            "group unscheduled": ("has messages but is not in the schedule, so no consumer sees it", "due now"),
            "group unscheduled behind a failure": ("has failed, but is not in the schedule", "parked; resume it"),
            "parked without reason": ("is parked without a failure or a missing number", "due now"),
            "paused without entry": ("is held as paused, but is not among the paused groups", "due now"),
        },
    ),
    **_broken(
        "leases",
        {
            "lease without group": ("has a lease but is not in the schedule", "lease removed"),
            "lease unreadable": ("its lease has an unreadable token, or one ahead: {detail!r}", "lease removed"),
            "leased and parked": ("is leased and parked at once: {detail!r}", "lease removed"),
        },
    ),
    **_broken("failures", {"failure without group": ("has a failure but is not in the schedule", "failure removed")}),
    **_broken(
        "clock",
        {
            "stamp ahead of clock": ("has a stamp or token {detail} ahead of the clock", "clock set forward"),
            "shard clock unreadable": (
                "the shard's clock {name!r} can't be read: {detail!r}",
                "set to the server's time",
            ),
        },
    ),
}
"""Code -> kind of finding. "more" summarizes further findings of the code `of`."""
