"""The scripts on the real server and the model answer the same calls alike, reply for reply and key for key."""

from __future__ import annotations

import json
import math
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sequencer import EmbeddedServer
from sequencer.calls.append import RelayBatch, append, append_batch
from sequencer.calls.call import Call
from sequencer.calls.claim import Claimed, claim
from sequencer.calls.operate import ParkedGroup, Resumed, pause, redrive, resume, resume_many, update
from sequencer.calls.settle import Ack, Nack, SaveStep, ack, nack, renew, save_step
from sequencer.errors import SequencerError
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.settings.policy import Policy
from sequencer.store.failure import decode_failure, digest_of
from sequencer.store.item import Item
from sequencer.store.keys import ShardKeys, shard_keys
from sequencer.store.ledger import Entry, Ledger, Written, encode_ledger, ledger_of_done
from sequencer.store.watermark import advance

from ..support.examples import examples
from ..support.invariants import check_invariants
from ..support.model.shard import ModelShard
from ..support.model.state import Refused
from ..support.shard import at, policy_words
from ..support.steps_model.controls import CONTROLS

GROUPS = ("a", "b", "c:1")
GROUP = st.sampled_from(GROUPS)
IDS = st.sampled_from("123456")
DONE = ledger_of_done({"charge": {"n": 1}}, 7)
ITEM = st.tuples(
    GROUP,
    IDS,
    st.sampled_from(["", "1.0", "2.5", "3.0", "1700000000000.5"]),
    st.sampled_from(["x", "x", "y", "x\nt", "x\nu", "y\nt"]),
    st.sampled_from(["", "", "", "+0", "+500000", "+3000000", "+500000ms", "1699999999000000", "1700000001500000us"]),
    st.sampled_from([b"", b"", b"", DONE]),
)
SERIALS = st.sampled_from([1, 2, 3, 0x7FFF, 0x8001, 0xFFFF, 0])
STARTED = encode_ledger(Ledger(7, (Entry("charge", once=True, state="started", token=1),)))
WRITTEN = st.builds(
    lambda serial, is_started: Written(STARTED if is_started else encode_ledger(Ledger(7)), serial, is_started),
    SERIALS,
    st.booleans(),
)
STEP = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(ITEM, min_size=1, max_size=5, unique_by=lambda item: item[:2]),
        st.sampled_from(["none", "others", "replace"]),
        st.booleans(),
    ),
    st.tuples(
        st.just("relay"),
        st.lists(ITEM, min_size=1, max_size=3, unique_by=lambda item: item[:2]),
        st.integers(1, 9),
        st.integers(0, 3),
    ),
    st.tuples(
        st.just("claim"),
        st.integers(1, 3),
        st.integers(1, 20),
        st.sampled_from([1, 60, 10_000]),
        st.booleans(),
        st.sampled_from([None, 0, 2, 9]),
        st.booleans(),
        st.sampled_from(["", "", "", *GROUPS]),
        st.sampled_from([None, None, (0, True), (1, False), (1, True), (3, False)]),
    ),
    st.tuples(st.just("ack"), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans(), st.booleans()),
    st.tuples(
        st.just("nack"), st.integers(0, 3), st.sampled_from(["park", "dead", "drop", 0.5, 0.0]), st.integers(0, 9)
    ),
    st.tuples(st.just("note"), st.integers(0, 3), st.integers(0, 2), WRITTEN, st.booleans(), st.integers(0, 9)),
    st.tuples(st.just("renew"), st.integers(0, 3), st.booleans()),
    st.tuples(
        st.just("update"), GROUP, IDS, st.sampled_from(["", "due", "2.0", "ms"]), st.sampled_from(["+0", "+800000"])
    ),
    st.tuples(st.just("pause"), st.sampled_from(["", *GROUPS]), st.booleans()),
    st.tuples(st.just("redrive"), st.integers(0, 3), st.none() | WRITTEN, st.sampled_from(["", "seen", "another"])),
    st.tuples(
        st.just("resume"), GROUP, st.sampled_from(["", "drop", "discard", "dead"]), st.none() | WRITTEN, st.booleans()
    ),
    st.tuples(st.just("resume_many"), st.sampled_from(["", "discard", "dead"]), st.booleans()),
    st.tuples(st.just("advance"), st.sampled_from([1, 500, 2000])),
)
POLICIES = st.sampled_from(
    [
        Policy(),
        Policy(dedup_window=0, watermark_window=0),
        Policy(dedup_window=1, dedup_cap=2, watermark_window=1, watermark_cap=1, on_late="drop"),
        Policy(on_late="dead_letter"),
        Policy(on_late="refuse", reorder_window=0.7),
        Policy(reorder_window=0.7),
        Policy(sequence=True, gap_timeout=1.0, on_gap="skip"),
        Policy(sequence=True, gap_timeout=1.0, on_gap="park"),
    ]
)


class Both:
    """Runs each call on the server and on the model, with the same time, and compares."""

    def __init__(self, link: Link, keys: ShardKeys, policy: Policy, model: ModelShard | None = None) -> None:
        self.link, self.keys, self.model = link, keys, model or ModelShard(policy)
        link.command("HSET", keys.policy, *policy_words(policy))
        self.leases: list[Any] = []

    def run(self, call: Call[Any]) -> Any:
        call = at(call, self.model.now_us)
        try:
            modelled = self.model.run(call)
        except Refused as refused:
            with pytest.raises(SequencerError, match=str(refused)):
                self.link.run_one(call)
            return None
        real = self.link.run_one(call)
        assert plain(real) == plain(modelled), call
        return real

    def compare_state(self) -> None:
        command, keys, model = self.link.command, self.keys, self.model
        schedule = command("ZRANGE", keys.schedule, 0, -1, "WITHSCORES")
        found = {group.decode(): float(at) for group, at in zip(schedule[::2], schedule[1::2], strict=True)}
        assert found == model.schedule
        leases = command("HGETALL", keys.leases)
        assert dict(zip(leases[::2], leases[1::2], strict=True)) == {
            group.encode(): holder.encode() for group, holder in model.leases.items()
        }
        assert {group.decode() for group in command("HKEYS", keys.failures)} == set(model.failures)
        for group in GROUPS:
            assert [m.decode() for m in command("ZRANGE", keys.order(group), 0, -1)] == model.members(group)
            body = command("HGETALL", keys.body(group))
            assert {k.decode(): v.decode() for k, v in zip(body[::2], body[1::2], strict=True)} == model.bodies.get(
                group, {}
            )
        assert {group.decode() for group in command("SMEMBERS", keys.paused)} == model.paused
        letters = [letter.decode() for letter in command("ZRANGE", keys.dead, 0, -1)]
        assert sorted(letters) == sorted(model.letters)
        assert {letter.decode() for letter in command("HKEYS", keys.skipped)} == model.skipped
        relays = command("HGETALL", keys.relays)
        assert {k.decode(): int(v) for k, v in zip(relays[::2], relays[1::2], strict=True)} == model.relays
        assert not check_invariants(self.link, [keys])


def plain(value: Any) -> Any:
    """A reply without what may differ: groups of a claim as tuples, scores as numbers."""
    if isinstance(value, Claimed):
        wait = None if value.next_due_s is None else round(value.next_due_s, 5)
        groups: list[Any] = [
            (g.key, g.token, g.expired_owner, g.messages, g.members, [*map(float, g.scores)], g.mark, g.on_late)
            for g in value.groups
        ]
        groups += [(g.ledgers, g.failure) for g in value.groups]
        return (groups, wait, value.is_empty, list(value.halted))
    if isinstance(value, Resumed):
        return (value.status, float(value.score) if value.score else None, value.record)
    return value


def walk(server: EmbeddedServer, steps: list[Any], policy: Policy, model: ModelShard | None = None) -> None:
    """Do all this on both, and compare."""
    link, keys = Link(Endpoint.from_url(server.url)), shard_keys(f"m{uuid.uuid4().hex[:8]}", "q", 0)
    both = Both(link, keys, policy, model)
    try:
        for kind, *args in steps:
            do(both, kind, args)
            both.compare_state()
    finally:
        link.command("DEL", *link.command("KEYS", keys.prefix + "*"))
        link.close()


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(policy=POLICIES, steps=st.lists(STEP, max_size=25))
def test_scripts_and_model_agree(server: EmbeddedServer, policy: Policy, steps: list[Any]) -> None:
    walk(server, steps, policy)


def put(*ids: str, done: bytes = b"", due: str = "", how: str = "none") -> Any:
    return ("append", [("a", one, f"{one}.0", "x", due, done) for one in ids], how, False)


def relayed(number: int, before: int = 0) -> Any:
    return ("relay", [("a", str(number), f"{number}.0", "x", "", b"")], number, before)


def noted(serial: int, *, at: int = 0, started: bool = False, progressed: bool = False, behind: int = 9) -> Any:
    return (
        "note",
        0,
        at,
        Written(STARTED if started else encode_ledger(Ledger(7)), serial, started),
        progressed,
        behind,
    )


PUT, CLAIM, FREE = (
    put("1", "2"),
    ("claim", 1, 3, 10_000, False, None, True, "", None),
    ("ack", 0, 0, True, False, False),
)
LATER = ("advance", 2000)
TRACES: dict[str, list[Any]] = {
    "a note is behind the acknowledgements of its group": [PUT, CLAIM, noted(1, behind=0)],
    "a late repeat of a note undoes nothing": [PUT, CLAIM, noted(2, started=True), noted(1)],
    "reschedule keeps the stamp of the keys": [PUT, ("update", "a", "1", "due", "+800000")],
    "redrive compares the failure that was seen": [PUT, CLAIM, ("nack", 0, "dead", 4), ("redrive", 1, None, "another")],
    "progress counts them anew": [PUT, CLAIM, LATER, CLAIM, noted(1, progressed=True)],
    "only the holder of the lease writes": [PUT, CLAIM, LATER, CLAIM, ("ack", 1, 1, False, False, False)],
    "cancel and replace are refused after effects": [PUT, CLAIM, noted(1, started=True), FREE, put("1", how="replace")],
    "a ledger dies with its message": [PUT, CLAIM, noted(1), FREE, put("1", how="replace")],
    "what a message was appended with is kept": [put("1", done=DONE), CLAIM],
    "a relay's batch is stored once": [relayed(2), relayed(2), relayed(1)],
    "a relay's batch waits for the one before it": [relayed(1), relayed(3, 2), relayed(2, 1)],
}
"""What shows on the server that a rule of the model is missing."""


MISSING, PARKED, FAILED = ("nack", 0, 0.5, 9), ("nack", 0, "park", 4), ("nack", 0, 0.5, 0)
SEEN, NEWER = ("redrive", 1, None, "seen"), Written(STARTED, 5, True)
LONG: list[list[Any]] = [
    [PUT, CLAIM, MISSING, LATER, CLAIM, MISSING, LATER, CLAIM, ("nack", 0, 0.5, 4), LATER, CLAIM],
    [PUT, CLAIM, LATER, CLAIM, noted(1, started=True), PARKED, ("resume", "a", "", NEWER, False), CLAIM, noted(6)],
    [PUT, CLAIM, noted(1, started=True), PARKED, ("resume", "a", "dead", None, False), SEEN, CLAIM, noted(3), noted(2)],
    [PUT, CLAIM, ("ack", 0, 1, False, False, False), FAILED, LATER, CLAIM, ("update", "a", "2", "due", "+0"), CLAIM],
    [put("1", due="+3000000"), ("update", "a", "1", "due", "+0"), CLAIM, noted(1), FREE, ("update", "a", "1", "", "")],
]


@pytest.mark.parametrize("steps", LONG)
def test_what_chance_rarely_finds(server: EmbeddedServer, steps: list[Any]) -> None:
    walk(server, steps, Policy())


class TakesAnyBatch(ModelShard):
    """A model whose relays may repeat a batch, or lose one."""

    def append(self, *args: str) -> bytes:
        self.relays.clear()
        return super().append(args[0], f"{args[1].rsplit(' ', 1)[0]} 0", *args[2:])


class LosesDone(ModelShard):
    def append(self, *args: str) -> bytes:
        flat, dues, _ = json.loads(args[2])
        return super().append(*args[:2], json.dumps([flat, dues, []]), *args[3:])


@pytest.mark.parametrize("name", TRACES)
def test_a_rule_of_the_model_that_is_taken_away_shows(server: EmbeddedServer, name: str) -> None:
    walk(server, TRACES[name], Policy())
    with pytest.raises(AssertionError):
        own = TakesAnyBatch if "relay" in name else LosesDone
        walk(server, TRACES[name], Policy(), CONTROLS.get(name, own)())


def do(both: Both, kind: str, args: list[Any]) -> None:
    keys, model = both.keys, both.model
    if kind in ("append", "relay"):
        items = [Item(g, name, score, envelope(body), due, done) for g, name, score, body, due, done in args[0]]
    if kind == "relay":
        both.run(append_batch(keys, items, RelayBatch("outbox:1", args[1], args[2])))
    elif kind == "append":
        is_counted = args[2] and len(items) == 1
        both.run(append(keys, items, on_conflict=args[1], backlog=is_counted))
    elif kind == "claim":
        limits = ClaimLimits(args[0], args[1], args[2])
        how = {"ahead": args[3], "alone": args[4], "with_failures": args[5], "only": args[6]}
        if args[7]:
            how |= {"suspects": args[7][0], "has_suspect": args[7][1]}
        claimed = both.run(claim(keys, "q", "me", 1.0, limits, **how))
        both.leases += claimed.groups
    elif kind == "advance":
        model.now_us += args[0] * 1000
    elif kind == "update":
        group, name, score, due = args
        both.run(update(keys, group, name, score, due if score else ""))
    elif kind == "pause":
        both.run(pause(keys, args[0], args[1]))
    elif kind == "redrive":
        letters = [*sorted(model.letters)[: args[0]], "1700000000000000a\n1"]
        told = [model.told.get(letter, "").encode() if args[2] == "seen" else b"another" for letter in letters]
        digests = [digest_of(failure) for failure in told] if args[2] else ()
        both.run(redrive(keys, letters, digests=digests, written=args[1]))
    elif kind == "resume":
        failure = model.failures.get(args[0], "").encode()
        member = decode_failure(failure)[1] if failure else ""
        given = b'{"type":"LeaseExpired"}' if args[1] and args[3] else b""
        member = model.members(args[0])[0] if given and model.members(args[0]) else member
        score = model.orders.get(args[0], {}).get(member)
        is_sequence = model.is_sequence and args[1] and score is not None
        mark = advance(model.mark(args[0]) or "#0", [repr(score)]) if is_sequence else ""
        how = {"ending": args[1], "mark": mark, "written": args[2], "told": given}
        both.run(resume(keys, args[0], failure, member, **how))
    elif kind == "resume_many":
        groups = [parked_group(model, group, is_seen=args[1] or group != "a") for group in GROUPS]
        both.run(resume_many(keys, groups, ending=args[0]))
    elif both.leases:
        with_lease(both, both.leases[-1 - args[0] % len(both.leases)], kind, args)


def envelope(body: str) -> bytes:
    """A body, and perhaps the trace in which it is sent."""
    content, newline, trace = body.partition("\n")
    return f'["{content}"]{newline}{trace and f"[{trace}]"}'.encode()


def parked_group(model: ModelShard, group: str, *, is_seen: bool) -> ParkedGroup:
    """A group as somebody saw it, or saw it before it changed."""
    failure = model.failures.get(group, "").encode()
    member = decode_failure(failure)[1] if failure else ""
    score = model.orders.get(group, {}).get(member)
    mark = advance(model.mark(group) or "#0", [repr(score)]) if model.is_sequence and score is not None else ""
    return ParkedGroup(group, digest_of(failure if is_seen else b"another"), member, "Error", mark)


def with_lease(both: Both, lease: Any, kind: str, args: list[Any]) -> None:
    keys = both.keys
    if kind == "ack":
        token = "0" * 16 if args[3] and args[2] else lease.token
        members = lease.members[: args[1]]
        mark = advance(lease.mark, lease.scores[: args[1]]) if members else ""
        follows = lease.members[args[1]] if args[4] and args[1] < len(lease.members) else ""
        entry = Ack(lease.key, token, members, args[2], mark, next=follows)
        both.run(ack(keys, [entry]))
    elif kind == "nack":
        is_ending = isinstance(args[1], str)
        delay_s: Any = None if is_ending else args[1]
        ending: Any = args[1] if is_ending else "park"
        is_passed = both.model.is_sequence and ending in ("dead", "drop")
        mark = advance(lease.mark, lease.scores[:1]) if is_passed else ""
        failure = b'{"member":"%s"}' % lease.members[0].encode()
        attempt = lease.messages[0].attempt
        before = lease.members[-1] if args[2] == 0 else ""  # as if that had been acknowledged in front of it
        told: Any = {
            "before": before,
            "has_progressed": args[2] % 2 == 1,
            "written": lease.ledgers and lease.ledgers[0],
        }
        told["written"] = (
            (told["written"] or None) if args[2] > 3 else Written(encode_ledger(Ledger(8)), args[2], False)
        )
        told["is_missing"] = args[2] == 9 and delay_s is not None
        entry_n = Nack(lease.key, lease.token, lease.members[0], attempt, delay_s, failure, ending, mark, **told)
        both.run(nack(keys, entry_n))
    elif kind == "note":
        before = lease.members[-1] if args[4] == 0 else ""
        entry_w = SaveStep(lease.key, lease.token, lease.members[args[1] % len(lease.members)], before, *args[2:4])
        both.run(save_step(keys, entry_w))
    else:
        both.run(renew(keys, [(lease.key, lease.token)], 1.0, alone=args[1]))


def test_a_repeated_call_changes_nothing_more(link: Link, namespace: str) -> None:
    """The network may repeat any call: append by id, ack, nack and renew by token (invariant 7)."""
    keys = shard_keys(namespace, "q", 0)
    link.command("HSET", f"{namespace}:queues", "q", 1)
    items = [Item("g", str(i), "", b"[1]") for i in range(3)]
    first = link.run_one(append(keys, items))
    assert [mark.outcome for mark in link.run_one(append(keys, items))] == ["duplicate"] * 3
    assert [mark.stamp for mark in link.run_one(append(keys, items))] == [mark.stamp for mark in first]
    (held,) = link.run_one(claim(keys, "q", "me", 5.0, ClaimLimits())).groups
    one = ack(keys, [Ack("g", held.token, held.members[:1], False)])
    assert link.run_one(one) == ([], False)
    assert link.run_one(one) == ([], False)
    failed = nack(keys, Nack("g", held.token, held.members[1], 1, None, b"{}"))
    assert link.run_one(failed).is_valid
    before = link.command("ZRANGE", keys.schedule, 0, -1, "WITHSCORES")
    assert not link.run_one(failed).is_valid
    assert link.run_one(one) == ([Ack("g", held.token, held.members[:1], False)], False)
    assert link.command("ZRANGE", keys.schedule, 0, -1, "WITHSCORES") == before
    assert link.run_one(resume(keys, "g", b"{}", held.members[1])).status == "resumed"
    assert link.run_one(resume(keys, "g", b"{}", held.members[1])).status == "changed"
    assert link.command("ZCARD", keys.order("g")) == 2
    assert math.isfinite(float(link.command("ZSCORE", keys.schedule, "g")))
