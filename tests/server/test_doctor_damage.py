"""Keys that others overwrote: whatever an error points at, doctor tells; and doctor itself never ends with an error."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from sequencer import Sequencer, SequencerError
from sequencer.doctor.diagnose import is_healthy
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import index_key, registry_key, shard_keys

KEYS, INDEX, REGISTRY = shard_keys("sequencer", "q", 0), index_key("sequencer"), registry_key("sequencer", "q")
MEMBER = "0000000000000001x"
CASES: dict[str, list[tuple[Any, ...]]] = {
    "index type": [("DEL", INDEX), ("SET", INDEX, "x")],
    "index word": [("HSET", INDEX, "q", "x")],
    "index name": [("HSET", INDEX, b"\xff", "1")],
    "registry type": [("DEL", REGISTRY), ("SET", REGISTRY, "x")],
    "registry table": [("HSET", REGISTRY, "table", "x x")],
    "registry policy": [("HSET", REGISTRY, "policy", "{}")],
    "generation": [("HSET", KEYS.policy, "generation", "\xff")],
    "packed": [("HSET", KEYS.policy, "packed", "3.1 1")],
    "policy number": [("HSET", KEYS.policy, "dedup_us", "abc")],
    "policy range": [("HSET", KEYS.policy, "mark_us", "-5")],
    "policy type": [("DEL", KEYS.policy), ("SET", KEYS.policy, "1")],
    "clock text": [("SET", KEYS.clock, "zz")],
    "clock ahead": [("SET", KEYS.clock, "99999999999999999")],
    "lease": [("HSET", KEYS.leases, "7", b"\xff")],
    "failure": [("HSET", KEYS.failures, "7", b"\xff{")],
    "schedule bytes": [("ZADD", KEYS.schedule, "1", b"\xff\xfe")],
    "dead letter": [("HSET", KEYS.dead_letters, b"short", b"\xff")],
    "memory": [("HSET", KEYS.memory, "dedup:began", "zz", "dedup:last", "zz")],
    "history open": [("HSET", KEYS.memory, "history:open", "zz", "history:end", "-", "history:due", "")],
    "history type": [("SET", KEYS.histories, "x")],
    "history bucket": [("ZADD", KEYS.histories, "1", b"\xff"), ("HSET", KEYS.history("x"), "g", "x")],
    "history entry": [
        ("ZADD", KEYS.histories, "1", "17"),
        ("HSET", KEYS.history("17"), "7\nzz", "x", b"\xff", b"\xff"),
    ],
    "history policy": [("HSET", KEYS.policy, "history_us", "zz", "history_cap", "-", "dead_us", "x", "dead_cap", "y")],
    "watermarks": [("HSET", KEYS.watermarks, "7", "zz")],
    "sequences": [("HSET", KEYS.sequences, "7", "zz")],
    "order score": [("ZADD", KEYS.order("7"), "inf", MEMBER)],
    "record": [("HSET", KEYS.body("7"), "a", "x")],
    "total": [("HSET", KEYS.stats, "appended", "zz")],
    "hint": [("RPUSH", KEYS.dispatch, b"\xff")],
}
CALLS: dict[str, Callable[[Sequencer], Any]] = {
    "append": lambda seq: seq.append(3, "7", id="c"),
    "consume": lambda seq: seq.consume(lambda message: None, until_empty=True),
    "info": lambda seq: seq.info(),
    "groups": lambda seq: seq.groups(),
    "dead": lambda seq: seq.dead(),
    "peek": lambda seq: seq.peek("7"),
    "explain": lambda seq: seq.explain("7"),
    "get": lambda seq: (seq.get("7", "a"), seq.get("7", "zz")),
    "history": lambda seq: (list(seq.history()), list(seq.history("7"))),
    "find": lambda seq: seq.find("zz"),
    "sweep": lambda seq: seq.sweep(),
}
POINTS_AT_DOCTOR = ("see what doctor says", "answered with an error", "written by something else")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_an_error_points_at_is_told(start_server: Callable[..., str], case: list[tuple[Any, ...]]) -> None:
    url = f"unix://{start_server()}"
    link = Link(Endpoint.from_url(url))
    with Sequencer("q", url) as seq:
        seq.append_many([{"body": 1, "group": "7", "id": "a"}, {"body": 2, "group": "7", "id": "b"}])
    link.commands(case)
    link.close()
    told = []
    for repair in (False, True, False):
        with Sequencer("q", url) as seq:
            told += [one.text for one in seq.doctor(repair=repair) if one.level == "problem"]
    said = []
    for name, call in CALLS.items():
        with Sequencer("q", url) as seq:
            try:
                call(seq)
            except SequencerError as error:
                said.append(f"{name}: {error}")
    pointing = [text for text in said if any(words in text for words in POINTS_AT_DOCTOR)]
    assert told or not pointing, pointing


@pytest.mark.parametrize("packed", ["zz", "GENERATION 0 5 0 drop 0 9 9"])
@pytest.mark.parametrize("fixes", ["new client", "connected client", "doctor"])
def test_packed_rules_that_others_wrote_are_corrected(
    start_server: Callable[..., str], packed: str, fixes: str
) -> None:
    url, came = f"unix://{start_server()}", []
    link = Link(Endpoint.from_url(url))
    with Sequencer("q", url) as connected:
        connected.append(0, "7", id="a")
        generation = link.command("HGET", KEYS.policy, "generation").decode()
        before = link.command("HGET", KEYS.policy, "packed")
        link.command("HSET", KEYS.policy, "packed", packed.replace("GENERATION", generation))
        if fixes == "doctor":
            with Sequencer("q", url) as seq:
                (told,) = [one for one in seq.doctor() if one.level == "problem"]
                assert (told.code, told.fields["key"]) == ("shard policy differs", KEYS.policy)
                assert told.commands["fix"] == "sequencer doctor q --repair"
                (fixed,) = [one for one in seq.doctor(repair=True) if one.level == "problem"]
                assert fixed.repaired
                assert is_healthy(seq.doctor())
        elif fixes == "connected client":
            connected.append(1, "7", id="b")
        with Sequencer("q", url) as seq:
            seq.consume(lambda message: came.append(message.id), until_empty=True)
            assert came[0] == "a"
            assert is_healthy(seq.doctor())
    assert link.command("HGET", KEYS.policy, "packed") == before
    link.close()


DROP, SEQUENCE = {"on_late": "drop"}, {"sequence": True}
OLDER = ("RENAME", KEYS.watermarks, f"{KEYS.watermarks}:old")
STOPS: dict[str, tuple[dict[str, Any], list[tuple[Any, ...]]]] = {
    "policy in digits of another script": ({}, [("HSET", KEYS.policy, "window_us", "\u0663")]),
    "policy of 400 digits": ({}, [("HSET", KEYS.policy, "dedup_us", "9" * 400)]),
    "watermark": (DROP, [("HSET", KEYS.watermarks, "7", "abc")]),
    "older watermark": (DROP, [OLDER, ("HSET", OLDER[2], "7", "abc")]),
    "watermark of a sequence": (SEQUENCE, [("HSET", KEYS.watermarks, "7", "abc")]),
    "number of 400 digits": (SEQUENCE, [("HSET", KEYS.sequences, "7", "#" + "9" * 400)]),
}
"""The queue's policy, and what others wrote."""


@pytest.mark.parametrize("case", STOPS.values(), ids=STOPS)
def test_a_queue_that_stops_is_not_healthy(
    start_server: Callable[..., str], case: tuple[dict[str, Any], list[tuple[Any, ...]]]
) -> None:
    url, (options, words) = f"unix://{start_server()}", case
    link = Link(Endpoint.from_url(url))
    with Sequencer("q", url, **options) as seq:
        seq.append(0, "7", score=1)
        seq.consume(lambda message: None, until_empty=True)
        for name in ("dedup", "watermarks"):  # as after half a window
            now = link.command("HGET", KEYS.memory, f"{name}:last") or 0
            link.command("HSET", KEYS.memory, f"{name}:old", now)
        assert is_healthy(seq.doctor())
        link.commands(words)
        link.close()
        told, came = not is_healthy(seq.doctor()), []
        with suppress(SequencerError):
            seq.append(1, "7", score=2)
            with seq.claim() as lease:
                came = [message.body for message in lease]
    assert told or came == [1]
