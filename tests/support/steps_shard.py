"""One group, on the server and in the model of steps: each call on both, compared answer for answer."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from sequencer import EmbeddedServer, calls
from sequencer.calls.outage import Waits
from sequencer.calls.settle import Ack, Nack, Nacked, SaveStep
from sequencer.doctor.invariants import check_invariants
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store import ledger as product
from sequencer.store.failure import decode_failure, digest_of, encode_failure
from sequencer.store.item import Item
from sequencer.store.keys import shard_keys
from sequencer.store.ledger import Written
from sequencer.store.record import DeadLetterContent, decode_head
from sequencer.values.message import Failure

from .shard import at, policy_words
from .steps_model import actions
from .steps_model.ledger import Entry, Ledger
from .steps_model.record import Record
from .steps_model.shard import PARKED, Shard

MS, BASE_US, G = 1000, 1_700_000_000_000_000, "g"
APPENDED_US = 7
"""What stands for the stamp in a ledger that comes with its message; in the model 0."""


def converted(ledger: Ledger, stamp: int) -> product.Ledger:
    entries = [product.Entry(**{name: getattr(entry, name) for name in vars(entry)}) for entry in ledger.entries]
    return product.Ledger(stamp, tuple(entries))


class Both:
    """One group, on the server and in the model."""

    def __init__(self, link: Link, namespace: str, shard: Shard) -> None:
        self.link, self.keys, self.shard = link, shard_keys(namespace, "q", 0), shard
        link.command("HSET", self.keys.policy, *policy_words(Policy()))
        self.real: dict[int, int] = {0: APPENDED_US}
        """Stamp in the model -> stamp on the server."""
        self.held: Any = None
        self.claimed: Any = None
        self.done = 0
        self.sent: list[Any] = []
        self.serials: dict[str, int] = {}

    @property
    def now_us(self) -> int:
        return BASE_US + self.shard.now * MS

    def run(self, call: Any) -> Any:
        return self.link.run_one(at(call, self.now_us))

    def record_of(self, id: str) -> bytes:
        kept: bytes = self.link.command("HGET", self.keys.body(G), id) or b""
        return kept

    def group(self) -> Any:
        return self.shard.groups.get(G)

    def written(self, record: Record, entries: tuple[Entry, ...]) -> tuple[Ledger, Written]:
        """A ledger for this message, as the model has it and as the server gets it; its serial is the next one."""
        stamp = record.ledger.stamp if record.ledger else record.stamp
        ledger = Ledger(stamp, entries)
        ours = converted(ledger, self.real[stamp])
        kept = decode_head(self.record_of(record.id) or self.letter(record.id).record).written
        serial = max(kept.serial if kept else 0, self.serials.get(record.id, 0)) + 1
        self.serials[record.id] = serial
        return ledger, Written(product.encode_ledger(ours), serial, ours.has_effects)

    def letter(self, id: str) -> DeadLetterContent:
        words = self.link.command("HGETALL", self.keys.dead_letters)
        found = {name.decode().partition("\n")[2]: kept for name, kept in zip(words[::2], words[1::2], strict=True)}
        return DeadLetterContent.parse(found.get(id, b""))

    # -- steps ------------------------------------------------------------------------------------------------

    def append(self, id: str, score: int, due: int, is_replacement: bool, done: Any = None) -> None:
        is_pending = self.group() is not None and id in self.group().records
        keeps = product.ledger_of_done(done or {}, APPENDED_US)
        item = Item(G, id, f"{score}.0", b"[1]", str(self.now_us + due * MS) if due else "", keeps)
        is_replacement = is_replacement and is_pending
        call = calls.append(self.keys, [item], on_conflict="replace" if is_replacement else "none")
        (real,) = self.run(call)
        record = Record(id, G, "", 0, score, due=self.shard.now + due if due else 0)
        if done:
            entries = [Entry(name, state="done", who="producer", result=result) for name, result in done.items()]
            record = replace(record, ledger=Ledger(0, tuple(entries)), serial=1)
        said = self.shard.append(record, is_replacement=is_replacement)
        names = {"stored": ("added", "replaced"), "duplicate": ("known",), "conflict": ("known",)}
        assert said in (names | {"effects": ("refused",)})[real.outcome], (said, real)
        if real.outcome == "stored":
            self.real[self.shard.groups[G].records[id].stamp] = real.stamp
            self.serials.pop(id, None)

    def claim(self, most: int) -> None:
        group = self.group()
        if group is None or not group.records or group.visible == PARKED:
            return
        self.shard.now += 5000  # past all leases and delays
        if not self.shard.is_due(group):
            return
        is_expired = bool(group.token)
        dues = [record.due <= self.shard.now for record in group.ordered()]
        most = min(most, [*dues, False].index(False))  # what is behind one that waits for its time waits too
        limits = ClaimLimits(1, most, 10**6)
        call = calls.claim(self.keys, "q", "me", 1.0, limits, with_failures=True)
        (self.held,) = self.run(call).groups
        self.claimed, self.done = self.shard.claim(G, 1 if is_expired else most), 0
        assert [message.id for message in self.held.messages] == [record.id for record in self.claimed.records]
        assert [message.attempt - 1 for message in self.held.messages] == [
            record.unanswered for record in self.claimed.records
        ]
        for position, record in enumerate(self.claimed.records):
            kept = self.held.ledgers[position] if self.held.ledgers else None
            self.check_ledger(kept, record)
        assert bool(self.held.failure) == bool(self.claimed.told)

    def current(self, at: int = 0) -> tuple[Record, str] | None:
        if self.held is None or self.done + at >= len(self.claimed.records):
            return None
        return self.claimed.records[self.done + at], self.held.members[self.done + at]

    def note(self, at: int, entries: tuple[Entry, ...], progressed: bool, behind: bool, stale: bool) -> None:
        if not (one := self.current(at)):
            return
        seen, member = one
        record = self.group().records.get(seen.id, seen)
        ledger, written = self.written(record if record.stamp == seen.stamp else seen, entries)
        previous = self.current(at - 1) if behind and at else None
        token = "0" * 16 if stale else self.held.token
        real = SaveStep(G, token, member, previous[1] if previous else "", written, progressed)
        model = (G, -1 if stale else self.claimed.token, replace(seen, serial=written.serial))
        rest = (previous[0].member if previous else None, actions.Note(ledger, progressed))
        self.sent.append((real, (*model, *rest)))
        self.again(-1)

    def again(self, which: int) -> None:
        """A note that was sent before comes once more."""
        if self.sent:
            real, model = self.sent[which % len(self.sent)]
            assert self.run(calls.save_step(self.keys, real)) == self.shard.note(*model)

    def ack(self, release: bool) -> None:
        if not (one := self.current()):
            return
        entry = Ack(G, self.held.token, [one[1]], False)
        refused = bool(self.run(calls.ack(self.keys, [entry])).refused)
        code = self.shard.ack(G, self.claimed.token, one[0])
        assert refused == (code == 0)
        if code == -1:  # the model says that it is gone, the server that it did what was to do
            self.shard.known.add(one[0].id)
        self.done += 1
        if release:
            self.release()

    def nack(self, entries: Any, progressed: bool, ending: str, verdict: str, behind: bool) -> None:
        if not (one := self.current()):
            return
        seen, member = one
        record = self.group().records.get(seen.id, seen)
        ledger, written = self.written(record if record.stamp == seen.stamp else seen, entries)
        is_missing, is_outage = verdict == "missing" and not ending, verdict == "outage" and not ending
        before = (
            (self.claimed.records[self.done - 1], self.held.members[self.done - 1]) if self.done and behind else None
        )
        failure = encode_failure(Failure(seen.id, "E", str(len(self.sent)), "", 1, float(self.shard.now), "me"), member)
        more: Any = {"written": None if is_missing else written, "outage": Waits(1.0, 2.0) if is_outage else None}
        more |= {"before": before[1] if before else "", "has_progressed": progressed, "is_missing": is_missing}
        delay_s, end = None if ending else 1.0, ending or "park"
        real = Nack(G, self.held.token, member, 1, delay_s, failure, end, **more)  # type: ignore[arg-type]
        said: Nacked = self.run(calls.nack(self.keys, real))
        model = actions.Nack(
            ledger, progressed, ending, actions.Failure("E"), None if ending else 1000, is_outage, is_missing
        )
        code = self.shard.nack(G, self.claimed.token, seen, before[0].member if before else None, model)
        assert said == (Nacked(False, is_behind=True) if code == -2 else said._replace(is_valid=code != 0))
        if code != -2:
            self.held = None
        if code == 1 and ending in ("dead", "drop"):
            self.shard.known.add(seen.id)

    def release(self) -> None:
        if self.held is not None:
            self.run(calls.ack(self.keys, [Ack(G, self.held.token, [], True)]))
            self.shard.release(G, self.claimed.token)
            self.held = None

    def seen(self, is_stale: bool) -> tuple[Any, bytes, str] | None:
        group = self.group()
        if group is None or group.told is None or group.visible != PARKED:
            return None
        failure = self.link.command("HGET", self.keys.failures, G) or b""
        told = replace(group.told, at=-1) if is_stale else group.told
        return told, b"{}" if is_stale else failure, decode_failure(failure)[1]

    def resume(self, entries: Any, is_stale: bool) -> None:
        if not (one := self.seen(is_stale)):
            return
        told, failure, member = one
        record = next(one for one in self.group().records.values() if one.member == told.member)
        ledger, written = (None, None) if entries is None else self.written(record, entries)
        real = self.run(calls.resume(self.keys, G, failure, member, written=written))
        assert (real.status == "resumed") == self.shard.resume(G, told, ledger)

    def skip(self, is_stale: bool) -> None:
        if not (one := self.seen(is_stale)):
            return
        told, failure, member = one
        real = self.run(calls.resume(self.keys, G, failure, member, ending="dead"))
        assert (real.status == "resumed") == self.shard.skip(G, told)

    def redrive(self, id: str, entries: Any, is_stale: bool) -> None:
        if id not in self.shard.letters:
            return
        record, told = self.shard.letters[id]
        ledger, written = (None, None) if entries is None else self.written(record, entries)
        failure, letter = self.letter(id).failure, f"{self.real[record.stamp]:016d}{G}\n{id}"
        digest = digest_of(b"{}" if is_stale else failure)
        call = calls.redrive(self.keys, [letter], digests=[digest], written=written)
        told = replace(told, at=-1) if is_stale else told
        assert (self.run(call) == ["redriven"]) == self.shard.redrive(id, told, ledger)
        if not is_stale and self.group().visible != PARKED and not self.group().token:
            self.group().visible = min(self.group().visible, self.shard.now)

    def update(self, id: str, due: int | None) -> None:
        text = "" if due is None else f"+{due * MS}"
        said = self.run(calls.update(self.keys, G, id, "" if due is None else "due", text))
        if said == "leased":
            return
        if due is None:
            names = {"done": "cancelled", "missing": "gone", "effects": "refused"}
            assert names[said] == self.shard.cancel(G, id)
            return
        assert (said == "done") == self.shard.reschedule(G, id, self.shard.now + due)
        if said == "done":
            record = self.shard.groups[G].records[id]
            self.real[record.stamp] = decode_head(self.record_of(id)).stamp
            self.shard.groups[G].records[id] = replace(record, unanswered=0)  # it gives fresh attempts

    # -- what lies there ----------------------------------------------------------------------------------------

    def check_ledger(self, kept: Written | None, record: Record) -> None:
        assert (kept is None) == (record.ledger is None), record
        if kept and record.ledger:
            assert product.decode_ledger(kept.ledger) == converted(record.ledger, self.real[record.ledger.stamp])
            assert kept.has_effects == record.has_effects

    def compare(self) -> None:
        group, records = self.group(), {}
        if group is not None:
            records = group.records
        assert {id.decode() for id in self.link.command("HKEYS", self.keys.body(G))} == set(records)
        for id, record in records.items():
            head = decode_head(self.record_of(id))
            assert (head.stamp, head.attempts) == (self.real[record.stamp], record.unanswered)
            self.check_ledger(head.written, record)
        assert self.link.command("HLEN", self.keys.dead_letters) == len(self.shard.letters)
        for id, (record, told) in self.shard.letters.items():
            kept = self.letter(id)
            self.check_ledger(decode_head(kept.record).written, record)
            self.check_failure(kept.failure, told)
        failure = self.link.command("HGET", self.keys.failures, G)
        members = {record.member for record in records.values()}
        marked_notified = (
            group.told if group and group.told and group.told.member in members else None
        )  # an ack forgets others
        assert (failure is not None) == (marked_notified is not None)
        if failure:
            self.check_failure(failure, marked_notified)
        assert check_invariants(self.link, [self.keys]) == []

    def check_failure(self, failure: bytes, told: Any) -> None:
        found, member = decode_failure(failure)
        assert (found.outages, found.missing) == (told.outages, told.missing)
        assert member == f"{self.real[told.member[0]]:016d}{told.member[1]}"


def walk(server: EmbeddedServer, steps: list[Any], shard: Shard) -> None:
    link, namespace = Link(Endpoint.from_url(server.url)), f"s{uuid.uuid4().hex[:8]}"
    both = Both(link, namespace, shard)
    try:
        for kind, *args in steps:
            if kind in ("cancel", "reschedule"):
                both.update(args[0], args[1] if kind == "reschedule" else None)
            else:
                getattr(both, kind)(*args)
            both.compare()
    finally:
        link.command("DEL", *link.command("KEYS", both.keys.prefix + "*"))
        link.close()
