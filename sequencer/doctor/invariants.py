"""Checks the invariants of a queue's data, and repairs what the data allow, while producers and consumers go on.

1. A group is in the schedule exactly when it has messages.
2. A group's order and body hold the same messages, member by member; an empty group leaves no key.
3. Leases and failures belong to groups in the schedule; no token and no stamp lies ahead of the shard's clock.
4. Every record carries the stamp of its member, and a readable count of attempts; if it says that its score is its
   stamp, so it is. If it says that it has a ledger, that can be read, and what stands before it fits: its length, and
   whether effects are noted; no step was started by a lease ahead of the shard's clock.
5. A parked group has a failure, or waits for a missing number; a paused one is among the paused groups.
6. Dead letters and their contents belong together. Their ledgers, and that of the message that was skipped last, are
   as those of records.
7. The shard has no other keys, and each of its keys has its type.
8. What holds a shard back in an outage, and what is known of that outage, are there together.
9. Each bucket of the history is listed, so that it is dropped in time.

Names are read in pages, and each group is judged by the script `repair`, at one moment: what is on its way is not taken
for broken. To repair: order and body are the truth, and the schedule is made to follow them. A message without its
other half can't be handled: a member without a record is removed, a record without a member becomes a dead letter. A
ledger that is broken stays as it is: its message parks, for an operator to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os.path import commonprefix

from ..calls import examine
from ..calls.call import Call
from ..calls.examine import Checked, Found
from ..net.link import Link
from ..store.ending import bucket_began_us
from ..store.group import decode_group
from ..store.keys import ShardKeys, escaped, guard_key
from ..store.ledger import LedgerError, decode_ledger, written_at
from ..store.record import STAMP_DIGITS, DeadLetterName, id_of
from ..store.replies import scanned, texts
from ..texts.findings import FINDINGS, Finding, finding
from .scope import PAGE
from .server import admin_command

GROUPS_PAGE = 50
"""Groups checked in one round trip, one script each."""
MEMBERS = 100
"""Members, ids or dead letters checked by one script."""
RECORDS_PAGE = 20
"""Records read by one command, only where a group's order and body differ: they may be large."""
_TYPES = {
    "zset": "schedule dead histories",
    "hash": "leases failures stats policy watermarks watermarks_old sequences memory skipped outage alerts notified "
    "relays dead_letters",
    "string": "clock",
    "list": "dispatch",
    "set": "paused dedup dedup_old",
}
Everything = dict[tuple[str, str], Found]
"""What is broken: code and name -> the row of the script's reply."""
_LEDGERS = ("ledger broken", "dead letter ledger broken", "skipped ledger broken")


class InvariantCheck:
    """One pass over some shards of a queue; with `repair`, what is broken is repaired where that is possible."""

    def __init__(
        self, link: Link, shards: Sequence[ShardKeys], *, repair: bool = False, nodes: Sequence[Link] = ()
    ) -> None:
        """`nodes`: a link to each node of a cluster, whose keys are listed node by node."""
        self._link, self._shards, self._repair, self._nodes = link, shards, repair, nodes or [link]
        self._call: Callable[..., Call[Checked]] = partial(examine.repair, dry_run=not repair)
        self._checked: set[tuple[str, str]] = set()
        self.groups = self.messages = 0
        """How many were checked."""
        self.lost = self.emptied = 0
        """How many messages without content were removed; and how many groups that had no message at all."""
        self.has_once = False
        """Whether one of them has a `once` step."""

    def run(self) -> Iterator[Finding]:
        """What is broken, as it is found. Raises ServerError."""
        sound = []
        for keys in self._shards:
            wrong = list(self._types(keys))
            yield from wrong
            if all(one.repaired for one in wrong):
                sound.append(keys)
                yield from self._shard(keys)
        yield from self._keys(sound)

    def _types(self, keys: ShardKeys) -> Iterator[Finding]:
        """Keys of a wrong type. What the dispatch list holds may be lost, so it can go."""
        wanted = _types(keys)
        types = self._link.commands([("TYPE", key) for key in wanted])
        for (key, kind), found in zip(wanted.items(), types, strict=True):
            if found.decode() not in (kind, "none"):
                can_go = self._repair and key == keys.dispatch
                if can_go:
                    self._link.command("DEL", key)
                yield finding("wrong type", can_go, key=key, type=found.decode(), wanted=kind)

    def _shard(self, keys: ShardKeys) -> Iterator[Finding]:
        yield from self._outage(keys)
        skipped = texts(self._link.command("HKEYS", keys.skipped))
        whole: Checked = self._link.run_one(self._call(keys, "", skipped=skipped))
        yield from (_finding("", one) for one in self._judged(whole.found))
        for names in self._scan("ZSCAN", keys.schedule):
            yield from self._groups(keys, names)
        for key in (keys.leases, keys.failures):
            for names in self._scan("HSCAN", key):
                yield from self._unscheduled(keys, names)
        found: Everything = {}

        for names in self._scan("ZSCAN", keys.dead):
            self._check(keys, "", "letters", names, found)
        listed, kept = self._link.commands([("ZCARD", keys.dead), ("HLEN", keys.dead_letters)])
        if listed != kept:
            for names in self._scan("HSCAN", keys.dead_letters, RECORDS_PAGE):
                self._check(keys, "", "letters", names, found)
        yield from (_finding("", one) for one in found.values())

    def _outage(self, keys: ShardKeys) -> Iterator[Finding]:
        """The outage and its probe are written and removed at once: neither stands without the other."""
        asked = [("HGET", keys.policy, "probe_us"), ("HGET", keys.outage, "opened_us")]
        before, (probe_us, opened_us) = self._link.commands(asked), self._link.commands(asked)
        if before != [probe_us, opened_us]:
            return  # it began, was probed or ended just now
        names = {"key": keys.outage, "policy": keys.policy}
        if probe_us is not None and not (probe_us.isdigit() and opened_us is not None):
            if self._repair:
                self._link.commands([("HDEL", keys.policy, "probe_us"), ("DEL", keys.outage)])
            value = probe_us[:30].decode("utf-8", "replace")
            yield finding("outage without start", self._repair, value=value, **names)
        elif probe_us is None and opened_us is not None:
            if self._repair:
                self._link.command("DEL", keys.outage)
            yield finding("outage without probe", self._repair, **names)

    def _keys(self, shards: Sequence[ShardKeys]) -> Iterator[Finding]:
        """Groups that have keys only, and keys that are not ours."""
        by_prefix = {keys.prefix: keys for keys in shards}
        known = {key for keys in shards for key in _types(keys)}
        start = commonprefix([*by_prefix])  # noqa: RUF071 - these are no paths
        for names in self._listed(start) if shards else ():
            groups: dict[str, dict[str, None]] = {prefix: {} for prefix in by_prefix}
            for name in names:
                prefix = name[: name.find("}:") + 2]
                group = _group_of(by_prefix[prefix], name) if prefix in by_prefix else ""
                if group:
                    groups[prefix][group] = None
                elif prefix in by_prefix and name.startswith(by_prefix[prefix].history("")):
                    yield from self._bucket(by_prefix[prefix], name)
                elif prefix in by_prefix and name not in known:
                    code = "guard key" if name == guard_key(name) else "unknown key"
                    yield finding(code, key=name, cli=admin_command(self._link))
            for prefix, some in groups.items():
                yield from self._unscheduled(by_prefix[prefix], list(some))

    def _bucket(self, keys: ShardKeys, key: str) -> Iterator[Finding]:
        """A bucket of the history; to repair, one that is not listed is listed as over since its beginning."""
        name = key.removeprefix(keys.history("")).removesuffix(":bodies")
        listed, kind = self._link.commands([("ZSCORE", keys.histories, name), ("TYPE", key)])
        if kind not in (b"hash", b"none"):
            yield finding("wrong type", key=key, type=kind.decode(), wanted="hash")
        elif listed is None and kind == b"hash":
            if self._repair:
                self._link.command("ZADD", keys.histories, "NX", bucket_began_us(name), name)
            yield finding("history unlisted", self._repair, key=key)

    def _unscheduled(self, keys: ShardKeys, groups: Sequence[str]) -> Iterator[Finding]:
        """Check those of these groups that are not in the schedule, and were not checked before."""
        if groups:
            times = self._link.command("ZMSCORE", keys.schedule, *groups)
            missing = [group for group, at in zip(groups, times, strict=True) if at is None]
            new = [group for group in missing if (keys.prefix, group) not in self._checked]
            self._checked.update((keys.prefix, group) for group in new)
            yield from self._groups(keys, new)

    # -- groups -----------------------------------------------------------------------------------------------

    def _groups(self, keys: ShardKeys, groups: Sequence[str]) -> Iterator[Finding]:
        for some in _pages(groups, GROUPS_PAGE):
            checks: list[Checked] = self._link.run([self._call(keys, group) for group in some])
            for group, check in zip(some, checks, strict=True):
                found: Everything = {(one.what, one.name): one for one in self._judged(check.found)}
                self.groups += check.order_size != 0
                self.messages += max(0, check.order_size)
                if check.order_size >= 0:
                    self._check_group(keys, group, check, found)
                repaired = {(one.what, one.name) for one in found.values() if one.repaired}
                gone = {id_of(name) for what, name in repaired if what == "message without record"}
                kept = {name for what, name in repaired if what == "record without place"}
                for page in _pages([*gone - kept], PAGE):  # one that had two places has its record
                    self.lost += self._link.command("HMGET", keys.body(group), *page).count(None)
                self.emptied += ("empty group scheduled", group) in repaired and not gone | kept
                yield from (_finding(group, one) for one in found.values())

    def _check_group(self, keys: ShardKeys, group: str, seen: Checked, found: Everything) -> None:
        """What its first check left out: members of a large group, and records where order and body differ."""
        if seen.looked_at < seen.order_size:
            for members in self._scan("ZSCAN", keys.order(group)):
                self._check(keys, group, "members", members, found)
        if seen.order_size == seen.body_size and not any(what == "message without record" for what, _ in found):
            return
        placed = {id_of(name) for what, name in found if what == "record differs"}
        for ids in self._scan("HSCAN", keys.body(group), RECORDS_PAGE):
            self._check(keys, group, "ids", ids, found)
        for id in placed:
            found.pop(("record without place", id), None)

    def _check(self, keys: ShardKeys, group: str, kind: str, names: Sequence[str], found: Everything) -> None:
        """Check these members, ids or letters, as many as a script takes. Each thing is reported as found first."""
        for page in _pages(names, MEMBERS):
            left = page
            while left:  # again from where a script stopped because records are large
                checked = self._link.run_one(self._call(keys, group, **{kind: left}))
                for one in self._judged(checked.found):
                    found.setdefault((one.what, one.name), one)
                left = left[max(1, checked.looked_at) :]

    def _judged(self, found: Sequence[Found]) -> Iterator[Found]:
        """What is broken. The script reports all ledgers; those that are sound are left out."""
        for one in found:
            if one.what not in _LEDGERS:
                yield one
                continue
            problem, has_once = _ledger_problem(one.detail)
            self.has_once = self.has_once or has_once
            if problem:
                yield one._replace(detail=problem)

    def _scan(self, command: str, key: str, page: int = PAGE) -> Iterator[list[str]]:
        """The names in a key, a page at a time."""
        cursor: bytes | None = b"0"
        while cursor is not None:
            cursor, found = scanned(self._link.command(command, key, cursor, "COUNT", page))
            yield texts(found[::2])

    def _listed(self, start: str) -> Iterator[list[str]]:
        """The keys that begin so, a page at a time."""
        for node in self._nodes:
            cursor: bytes | None = b"0"
            while cursor is not None:
                words = ("SCAN", cursor, "MATCH", f"{escaped(start)}*", "COUNT", PAGE)
                cursor, found = scanned(node.command(*words))
                yield texts(found)


def _types(keys: ShardKeys) -> dict[str, str]:
    return {getattr(keys, name): kind for kind, names in _TYPES.items() for name in names.split()}


def _group_of(keys: ShardKeys, name: str) -> str:
    for start in (keys.order(""), keys.body("")):
        if name.startswith(start):
            return name[len(start) :]
    return ""


def _pages(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (items[first : first + size] for first in range(0, len(items), size))


def _finding(group: str, one: Found) -> Finding:
    """The finding for one row of the script's reply about this group; "" for none."""
    code, fields = one.what, {"name": one.name, "detail": one.detail}
    if code == "wrong type":
        return finding(code, key=one.name, type="another", wanted="ours")
    if code.startswith(("dead letter", "skipped")):
        stamp, encoded, id = DeadLetterName.parse(one.name)
        if stamp.isdecimal() and len(stamp) == STAMP_DIGITS and encoded and id:  # of others: as it is
            return finding(code, one.repaired, group=decode_group(encoded), id=id, letter=id, **fields)
        return finding(code, one.repaired, letter=one.name, **fields)
    if FINDINGS[code].check == "messages":
        fields["id"] = one.name if code == "record without place" else id_of(one.name)
    return finding(code, one.repaired, group=decode_group(group) if group else (), **fields)


def _ledger_problem(record: str) -> tuple[str, bool]:
    """What is wrong with a ledger as its record has it, "" for nothing; and whether it has a `once` step."""
    clock, _, text = record.partition(" ")
    kept = text.encode("utf-8", "surrogateescape")
    written = written_at(kept, 0)[0]
    try:
        ledger = decode_ledger(written.ledger)
    except LedgerError as error:
        return f"can't be used: {error}", False
    problem = ""
    if written.text() != kept:
        problem = "has other digits before it than belong to its bytes"
    elif ledger.has_effects != written.has_effects:
        problem = f"says effects {written.has_effects}, and its steps say {ledger.has_effects}"
    elif ahead := [entry.name for entry in ledger.entries if entry.token > int(clock)]:
        problem = f"names a lease ahead of the clock, in step {ahead[0]}"
    return problem, any(entry.once for entry in ledger.entries)
