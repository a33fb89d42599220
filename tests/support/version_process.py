"""One process of a version of the package; see versions.py. It uses only what every version since 0.4.0 has.

    write                fill queues with all that may lie in Redis, say what was answered, and die by SIGKILL
    read                 consume, resume, redrive and explain what another version wrote; say what came of it

What `write_PART` leaves is for `read_PART`. Words behind `write` and `read` choose parts; without any it is all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import defaultdict
from typing import Any

import redis

from sequencer import Lease, Message, Park, Sequencer, SequencerError, SetAside

from .version_client import NAMESPACE, URL, be_as_asked, queue

LONG_S = 3600.0
held: list[Lease] = []
"""Leases that this process holds when it dies."""


def label(message: Message) -> str:
    """How a message was handled, in words: its id, then what is special."""
    special = {f"attempt {message.attempt}": message.attempt > 1, "late": message.late, "redriven": message.redriven}
    return " ".join([message.id, *(word for word, is_so in special.items() if is_so)])


def drain(seq: Sequencer, *, audit: bool = False, most: int | None = None) -> dict[str, list[str]]:
    """Handle all that may be handled: each group with its messages in the order of their runs."""
    runs = defaultdict[str, list[str]](list)

    def handle(message: Message) -> None:
        runs["/".join(message.group)].append(label(message))

    seq.consume(handle, until_empty=True, audit=audit, max_messages=most)
    return dict(sorted(runs.items()))


def outcome(seq: Sequencer, *words: Any, **more: Any) -> str:
    """What an append answers: the receipt's outcome, or the name of the error."""
    try:
        return str(seq.append(*words, **more).outcome)
    except SequencerError as error:
        return type(error).__name__


def fail(seq: Sequencer, error: BaseException) -> None:
    """Let each message with `bad` in its id fail with this; handle the others."""

    def handle(message: Message) -> None:
        if "bad" in message.id:
            raise error

    seq.consume(handle, until_empty=True)


def claim(name: str, lease: float) -> dict[str, Any]:
    """Claim a group and never give it back; its owner and token."""
    lease_ = queue(name).claim(lease=lease)
    held.append(lease_)
    return {"owner": lease_.owner, "token": next(iter(lease_)).token}


# -- what a queue remembers: ids, watermarks, numbers -----------------------------------------------------------


def write_dedup() -> Any:
    seq = queue("dedup", dedup_window=LONG_S)
    seq.append(1, ["a"], id="handled")
    done = drain(seq)
    return [done, *[outcome(seq, body, ["a"], id="pending") for body in (1, 1, 2)]]


def read_dedup() -> Any:
    seq = queue("dedup")
    tries = [("handled", 2), ("pending", 1), ("pending", 2), ("new", 1)]
    return [*[outcome(seq, body, ["a"], id=id) for id, body in tries], drain(seq)]


def write_late() -> Any:
    found = {}
    for fate in ("handle", "dead_letter", "drop", "refuse"):
        seq = queue(f"late_{fate}", on_late=fate)
        seq.append(1, ["a"], id="five", score=5)
        drain(seq)
        found[fate] = outcome(seq, 1, ["a"], id="two", score=2)
    return found


def read_late() -> Any:
    found = {}
    for fate in ("handle", "dead_letter", "drop", "refuse"):
        seq = queue(f"late_{fate}")
        tries = [("three", 3), ("six", 6)]
        told = [outcome(seq, 1, ["a"], id=id, score=score) for id, score in tries]
        found[fate] = [*told, drain(seq), [letter.message.id for letter in seq.dead()]]
    return found


def write_sequence() -> Any:
    seq = queue("sequence", sequence=True, gap_timeout=LONG_S)
    seq.append_many({"body": n, "group": ["a"], "id": f"n{n}", "score": n} for n in (5, 3, 2, 1))
    told = drain(seq, most=2)
    for fate in ("park", "skip"):
        gap = queue(f"sequence_{fate}", sequence=True, gap_timeout=0.05, on_gap=fate)
        gap.append_many({"body": n, "group": ["a"], "id": f"n{n}", "score": n} for n in (1, 3))
    return [told, drain(queue("sequence_park"))]


def read_sequence() -> Any:
    seq, parked = queue("sequence"), queue("sequence_park")
    told: list[Any] = [drain(seq, most=1), seq.explain(["a"]).reason]
    told += [outcome(seq, n, ["a"], id="again", score=n) for n in (1, 3, 5)]
    seq.append(4, ["a"], id="n4", score=4)
    why = parked.explain(["a"]).reason
    gap: Any = parked.skip(["a"])
    return [*told, drain(seq), why, [gap.first, gap.last], drain(parked), drain(queue("sequence_skip"))]


# -- messages: times, contents, lanes ---------------------------------------------------------------------------


def write_timers() -> Any:
    seq = queue("timers", dedup_window=0)
    delays = {"soon": 0.3, "far": LONG_S, "gone": LONG_S, "replaced": LONG_S}
    window = queue("window", reorder_window=0.2)
    window.append_many({"body": 1, "group": ["a"], "id": f"s{score}", "score": score} for score in (2, 1, 3))
    return [outcome(seq, 1, [id], id=id, delay=delay) for id, delay in delays.items()]


def read_timers() -> Any:
    seq = queue("timers")
    told = [seq.explain(["far"]).reason]
    seq.reschedule(["far"], "far", delay=0)
    seq.cancel(["gone"], "gone")
    seq.append(2, ["replaced"], id="replaced", delay=0, replace=True)
    runs: dict[str, Any] = {}

    def handle(message: Message) -> None:
        is_early = message.id == "soon" and time.time() < message.appended_at + 0.29
        runs[label(message)] = "early" if is_early else message.body

    seq.consume(handle, until_empty=True)
    return [told, dict(sorted(runs.items())), drain(queue("window"))]


def write_contents() -> Any:
    seq = queue("contents")
    seq.append(None, ["a_b", "c"], id="none")
    seq.append({"deep": [1, 2.5, "ü"]}, ["a", "b_c"], id="deep", headers={"trace": "ü€", "k": ""})
    seq.append(10**15, [1002, "%:/"], id="score", score=-0.5, headers={"a": "b"})
    with redis.Redis.from_url(URL) as client:
        pipeline = client.pipeline(transaction=True)
        for id in ("p1", "p2"):
            seq.append(id, ["p"], id=id, pipeline=pipeline)
        pipeline.execute()
    lanes = queue("lanes", lanes=4)
    receipt = lanes.append_many({"body": n, "group": [n % 20], "id": f"l{n}"} for n in range(60))
    return receipt.appended


def read_contents() -> Any:
    runs: dict[str, Any] = {}

    def handle(message: Message) -> None:
        score = message.score if message.score < 0 else abs(message.score - message.appended_at) < 1e-6
        runs[message.id] = [list(message.group), message.body, message.headers, score]

    queue("contents").consume(handle, until_empty=True)
    lanes = queue("lanes")
    return [dict(sorted(runs.items())), lanes.info().lanes, drain(lanes)]


# -- what failed, what is held ----------------------------------------------------------------------------------


def write_failed() -> Any:
    parked, dead, tried = queue("parked", max_attempts=2), queue("dead"), queue("tried")
    parked.append_many({"body": 1, "group": [group], "id": id} for group in "ab" for id in ("bad", "next"))
    fail(parked, ValueError("no"))
    dead.append_many({"body": id, "group": ["a"], "id": id, "headers": {"h": id}} for id in ("bad1", "bad2", "good"))
    fail(dead, SetAside("so"))
    dead.append(1, ["a"], id="last")
    tried.append_many({"body": 1, "group": ["a"], "id": id} for id in ("bad", "next"))
    with tried.claim() as lease:
        lease.nack(next(iter(lease)), "again", after=0.05)
    stopped = queue("stopped")
    stopped.append(1, ["a"], id="bad")
    fail(stopped, Park("by hand"))
    return [parked.info().parked, dead.count_dead(), stopped.info().parked]


def read_failed() -> Any:
    parked, dead, stopped = queue("parked"), queue("dead"), queue("stopped")
    groups = [
        [info.group[0], info.backlog, info.attempts, info.failure and [info.failure.type, info.failure.message]]
        for info in sorted(parked.parked(), key=lambda info: info.group)
    ]
    letters = [
        [letter.message.id, letter.message.headers, letter.attempts, letter.error.type, letter.error.message]
        for letter in dead.dead()
    ]
    why = [parked.explain(["a"]).reason, stopped.explain(["a"]).reason]
    removed: Any = parked.skip(["b"])
    told = [why, parked.resume(["a"]), label(removed), stopped.resume(["a"])]
    told += [dead.purge(id="bad2"), dead.redrive(id="bad1").redriven]
    return [groups, letters, told, *[drain(seq) for seq in (parked, dead, stopped, queue("tried"))]]


def write_paused() -> Any:
    group, whole = queue("paused"), queue("paused_queue")
    group.append_many({"body": 1, "group": [one], "id": one} for one in "ab")
    whole.append(1, ["a"], id="a")
    return [group.pause(["a"]), whole.pause(), drain(queue("paused_queue"))]


def read_paused() -> Any:
    group, whole = queue("paused"), queue("paused_queue")
    why = [group.explain(["a"]).reason, whole.explain(["a"]).reason]
    told = [[list(one) for one in group.paused_groups()], why, drain(group), drain(whole)]
    return [*told, group.unpause(["a"]), whole.unpause(), drain(group), drain(whole)]


def write_leased() -> Any:
    for name in ("killed", "held"):
        queue(name).append_many({"body": 1, "group": ["a"], "id": id} for id in ("k1", "k2"))
    return [claim("killed", 0.3), claim("held", LONG_S)]


def read_leased() -> Any:
    killed, kept = queue("killed"), queue("held")
    info = kept.groups()[0]
    tokens: list[int] = []
    runs: list[str] = []

    def handle(message: Message) -> None:
        tokens.append(message.token)
        runs.append(label(message))

    killed.consume(handle, until_empty=True)
    with kept.claim() as lease:
        is_free = bool(lease)
    held_by = {"owner": info.owner, "token": info.token}
    return [runs, tokens[0], info.state, kept.explain(["a"]).reason, held_by, is_free]


def write_audited() -> Any:
    seq = queue("audited")
    seq.append_many({"body": 1, "group": ["a"], "id": f"m{n}"} for n in range(4))
    return drain(seq, audit=True, most=2)


def read_audited() -> Any:
    seq = queue("audited")
    told = drain(seq, audit=True)
    report = seq.audit()
    return [told, report.messages, report.duplicates, report.is_clean]


# -- the process ------------------------------------------------------------------------------------------------


def problems() -> list[str]:
    """What this version's doctor finds broken in the data."""
    with redis.Redis.from_url(URL) as client:
        names = sorted(name.decode() for name in client.hkeys(f"{NAMESPACE}:queues"))
    return [f"{name}: {one.text}" for name in names for one in queue(name).doctor() if one.level == "problem"]


def main(role: str, *parts: str) -> None:
    be_as_asked()
    names = parts or [name.removeprefix("write_") for name in globals() if name.startswith("write_")]
    found: dict[str, Any] = {"problems": problems()} if role == "read" else {}
    for name in names:
        found[name] = globals()[f"{role}_{name}"]()
    print(json.dumps(found), flush=True)
    if role == "write":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
