"""Records in Redis that others changed: whatever they hold, every public method answers, or raises an error of our own,
and a consumer hands over what it can read and ends by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from sequencer.client import Sequencer, list_queues
from sequencer.errors import LeaseLost, SequencerError

from . import strategies as inputs
from .bench import NAMESPACE, QUEUE, Bench

HANG_S = 8.0
"""No method may take longer here: the longest wait is a consumer's, of about a second."""
MAX_AGE_S = 0.1
GROUP, DEAD = "g", "d"
Words = tuple[Any, ...]


def fill(bench: Bench, options: dict[str, Any]) -> None:
    """Pending messages in two groups, one of which failed; a dead letter; watermarks and ids."""
    bench.clear()
    with bench.client(**options, backoff=0.0, max_attempts=2) as client:
        for number in range(1, 4):
            client.append({"n": number}, [DEAD], id=f"d{number}", score=number)
        with client.claim(groups=2, messages=3) as lease:
            for message in lease:
                if message.id == "d2":
                    lease.dead_letter(message, "no")
                    break
                lease.ack(message)
        client.consume(lambda message: None, max_messages=1, max_age=1.0)
        for number in range(1, 4):
            client.append({"n": number}, [GROUP], id=f"m{number}", score=number, headers={"a": "b"})
        with client.claim() as lease:
            for message in lease:
                lease.nack(message, ValueError("no"))
                break


def letter_of(bench: Bench) -> bytes:
    """The name of a dead letter, for its content to be changed."""
    names: list[bytes] = bench.link.command("HKEYS", bench.keys.dead_letters)
    return names[0] if names else b"0000000000000001d\nd2"


def methods(client: Sequencer, bench: Bench) -> dict[str, Callable[[], Any]]:
    """Every public method that reads what is stored; those that change it come last."""
    return {
        "info": client.info,
        "alerts": client.alerts,
        "groups": client.groups,
        "parked": client.parked,
        "paused_groups": client.paused_groups,
        "peek": lambda: (client.peek([GROUP]), client.peek([DEAD])),
        "explain": lambda: (client.explain([GROUP]), client.explain([DEAD])),
        "get": lambda: [client.get([GROUP], name) for name in ("m1", "m2", "d2")],
        "history": lambda: (list(client.history()), list(client.history([GROUP])), client.find("m1"), client.sweep()),
        "dead": lambda: (client.dead(), client.count_dead(), client.count_dead(error="x")),
        "policy": lambda: client.policy,
        "queues": lambda: list_queues(bench.url, NAMESPACE),
        "doctor": client.doctor,
        "append": lambda: client.append({"n": 9}, [GROUP], id="m9", score=9),
        "append again": lambda: client.append({"n": 1}, [GROUP], id="m1", score=1),
        "append_many": lambda: client.append_many([{"body": 1, "group": [GROUP], "id": "m8", "score": 8}]),
        "pause": lambda: (client.pause([GROUP]), client.unpause([GROUP])),
        "resume": lambda: client.resume([GROUP]),
        "claim": lambda: _claim(client),
        "consume": lambda: _consume(client),
        "reschedule": lambda: client.reschedule([GROUP], "m2", delay=1),
        "cancel": lambda: client.cancel([GROUP], "m2"),
        "skip": lambda: client.skip([GROUP]),
        "redrive": lambda: client.redrive(everything=True),
        "consume again": lambda: _consume(client),
        "purge": lambda: client.purge(everything=True),
        "repair": lambda: client.doctor(repair=True),
    }


def _claim(client: Sequencer) -> None:
    with suppress(LeaseLost), client.claim(groups=3) as lease:
        for message in lease:
            lease.ack(message)


def _consume(client: Sequencer) -> None:
    def handle(message: Any) -> None:
        if message.id.endswith("3"):
            raise ValueError("a handler's own error")

    client.consume(handle, until_empty=True, max_age=MAX_AGE_S)


def check_records(given: tuple[dict[str, Any], Sequence[Callable[[Bench], Words]]], bench: Bench) -> bool:
    """Change some records of a queue, then call everything; whether anything could be changed."""
    options, damages = given
    fill(bench, options)
    is_changed = False
    for damage in damages:
        with suppress(SequencerError):  # such as a score that the server itself refuses
            bench.link.command(*damage(bench))
            is_changed = True
    with suppress(SequencerError), bench.client(**options, backoff=0.0, max_attempts=2) as client:
        for name, method in methods(client, bench).items():
            began = time.monotonic()
            with suppress(SequencerError):
                method()
            assert time.monotonic() - began < HANG_S, f"{name} hangs"
    return is_changed


class Damage:
    """One change, made to whatever is there; its repr is what a problem shows."""

    def __init__(self, *words: Any) -> None:
        self.words = words

    def __call__(self, bench: Bench) -> Words:
        keys = bench.keys
        places = {"letter": letter_of, "order": lambda _: keys.order(GROUP), "body": lambda _: keys.body(GROUP)}
        return tuple(self._word(word, bench, places) for word in self.words)

    @staticmethod
    def _word(word: Any, bench: Bench, places: dict[str, Callable[[Bench], Any]]) -> Any:
        if not isinstance(word, str) or not word.startswith("@"):
            return word
        name = word[1:]
        if name in places:
            return places[name](bench)
        return getattr(bench.keys, name) if hasattr(bench.keys, name) else f"{bench.keys.prefix}{name}"

    def __repr__(self) -> str:
        return f"({' '.join(str(word) for word in self.words)})"


def _flipped(data: bytes, at: int, by: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


def damages() -> Any:
    """A change of one record. "@name" stands for a key of the shard, "@order" and "@body" for those of the group."""
    rubbish = st.one_of(st.binary(max_size=30), inputs.json_bytes, st.sampled_from([b"inf", b"nan", b"1e300", b"-5"]))
    sound = b'000000000000000100000[{"n":1}]'
    flipped = st.builds(_flipped, st.just(sound), st.integers(0, 40), st.integers(1, 255))
    records = st.one_of(inputs.records, flipped, rubbish)
    ids = st.one_of(st.sampled_from(["m1", "m2", "m3", b"\xff", "new"]), st.binary(max_size=5))
    members = st.builds(lambda a, b: a + b, inputs.digits, st.one_of(st.just(b"m1"), st.binary(max_size=4)))
    scores = st.sampled_from(
        ["inf", "-inf", "1e300", "0", "1.5", "9e15", "1e18", "-1e18", "4e15", "253402300800000000"]
    )
    groups = st.sampled_from([GROUP, DEAD, "ghost", b"\xff", "", "a\nb", "%zz"])
    failure = st.sampled_from(
        [b"{}", b"[]", b"null", b'{"member":5}', b'{"attempt":"x"}', b'{"at":[]}', b'{"attempt":1e300,"at":1e308}']
    )
    letter = st.builds(
        lambda score, why, record: score + b"\n" + why + b"\n" + record,
        st.sampled_from([b"1.0", b"", b"x", b"inf", b"\xff"]),
        st.one_of(failure, rubbish),
        records,
    )
    marks = st.one_of(st.sampled_from([b"#", b"#5 1-2", b"#x", b"#5 1-", b"#5 x-y", b"5", b"1e300", b"nan"]), rubbish)
    names = ["dedup_us", "dedup_cap", "on_late", "mark_us", "mark_cap", "window_us", "sequence", "gap_us", "on_gap"]
    kinds = [
        "schedule",
        "leases",
        "failures",
        "clock",
        "dispatch",
        "stats",
        "policy",
        "paused",
        "watermarks",
        "sequences",
    ]
    kinds += ["dedup", "memory", "dead", "dead_letters", "watermarks:old", "dedup:old", "order", "body"]
    lease = st.one_of(rubbish, st.just(b"00000000000000011me"), st.just(b"9" * 16 + b"0\xff"))

    def change(*parts: Any) -> Any:
        fixed = [part if hasattr(part, "map") else st.just(part) for part in parts]
        return st.tuples(*fixed).map(lambda words: Damage(*words))

    return st.one_of(
        change("HSET", "@body", ids, records),
        change("HDEL", "@body", ids),
        change("ZADD", "@order", scores, members),
        change("ZADD", "@schedule", scores, groups),
        change("HSET", "@failures", groups, st.one_of(failure, rubbish)),
        change("HSET", "@leases", groups, lease),
        change("HSET", "@dead_letters", st.one_of(st.just("@letter"), rubbish), letter),
        change("ZADD", "@dead", scores, st.one_of(st.just("@letter"), rubbish)),
        change("HSET", st.sampled_from(["@watermarks", "@sequences"]), groups, marks),
        change("HSET", "@policy", st.sampled_from([*names, "paused", b"\xff"]), rubbish),
        change("HSET", "@stats", st.sampled_from(["appended", "handled", b"\xff"]), rubbish),
        change("HSET", "@memory", rubbish, rubbish),
        change("SET", "@clock", rubbish),
        change("SADD", "@paused", groups),
        change("HSET", f"{NAMESPACE}:queues", st.sampled_from([QUEUE, b"\xff", "other"]), rubbish),
        change("SET", st.sampled_from([f"@{kind}" for kind in kinds]), rubbish),
    )


def changes() -> Any:
    """The options of a queue, and some damage."""
    options = st.sampled_from([{}, {"sequence": True}, {"on_late": "dead_letter"}, {"reorder_window": 0.05}])
    return st.tuples(options, st.lists(damages(), min_size=1, max_size=3))
