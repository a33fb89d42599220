"""History on a real server: what consumers write, what is found of it, and what it costs where it is off."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.calls.settle import Ack, ack
from sequencer.doctor.invariants import InvariantCheck
from sequencer.net.link import Link
from sequencer.settings.policy import DAY_S, Policy
from sequencer.store.keys import ShardKeys
from sequencer.testing.wire import Wire, wired

from ..support.command_counts import commands_of
from ..support.handling import got
from ..support.history_recorder import Recorder, handled_by
from ..support.shard import Shard, item

MakeSequencer = Callable[..., Sequencer]


def drain(seq: Sequencer, recorder: Recorder, *, pause_s: float = 0.012) -> None:
    """Consume, while the recorder looks at the same clock as the server."""

    def handle(message: Message) -> None:
        name, began = handled_by(recorder, time.time, message)
        time.sleep(pause_s)
        if message.body == "fails once" and message.attempt == 1:
            raise ValueError("once")
        recorder.end(name, "finished", time.time(), began)

    seq.consume(handle, until_empty=True)


def append(seq: Sequencer, recorder: Recorder, body: str = "") -> list[tuple[str, str]]:
    names = [(f"g{n % 3}", f"e{n}") for n in range(24)]
    for group, id in names:
        receipt = seq.append(body if id == "e7" else "", group=group, id=id)
        recorder.appended((group, id), (receipt.stamp or 0) / 1e6)
    return names


def test_every_answer_is_what_a_recorder_noted(make: MakeSequencer) -> None:
    """Times are of two clocks and two processes: 10 ms, but for what a busy machine adds to one of them."""
    seq, recorder = make(history_window=DAY_S, backoff=0.01), Recorder(exact_s=0.010)
    names = append(seq, recorder, "fails once")
    drain(seq, recorder)
    assert len(recorder.ended) == len(names)
    offs = [
        abs((info.began_at or 0) - (recorder.ended[info.group[0], info.id].began_at or 0)) for info in seq.history()
    ]
    assert sorted(offs)[-3] <= 0.010, offs
    recorder.exact_s = 0.25
    recorder.compare(seq, names)
    info = got(seq, "g1", "e7")
    assert info.attempts == 2
    assert info.consumer.count(":") == 2
    found = seq.info().history
    assert found is not None
    assert (found.window_s, found.messages) == (DAY_S, 24)
    assert 0 < found.reaches_s < 60


def test_a_lease_of_ones_own_writes_it_too(make: MakeSequencer) -> None:
    seq = make(history_window=DAY_S, on_failure="drop", max_attempts=1)
    for id in ("a", "b", "c"):
        seq.append({}, group="g", id=id)
    with seq.claim() as lease:
        for message in lease:
            time.sleep(0.02)
            if message.id == "c":
                lease.nack(message, ValueError("no"))
            else:
                lease.ack(message)
    found = {info.id: info for info in seq.history()}
    assert {id: info.state for id, info in found.items()} == {"a": "finished", "b": "finished", "c": "dropped"}
    assert all(0.015 < (info.finished_at or 0) - (info.began_at or 0) < 0.5 for info in found.values())
    assert found["c"].note == "ValueError: no"
    assert found["c"].consumer == lease.owner == found["a"].consumer


def test_find_looks_through_all_groups_and_shards(make: MakeSequencer) -> None:
    seq = make(shards=3, history_window=DAY_S, max_attempts=1, on_failure="dead_letter", dedup_window=0)
    odd = "a*[b]?\\\nc"
    seq.append_many({"body": 1, "group": ["ended", n], "id": odd if n % 2 else f"{odd}x"} for n in range(60))

    def handle(message: Message) -> None:
        if message.body == 2:
            raise ValueError("no")

    seq.consume(handle, until_empty=True)
    seq.append_many({"body": 2, "group": ["dead", n], "id": odd} for n in range(5))
    seq.consume(handle, until_empty=True)
    seq.append_many({"body": 1, "group": ["waits", n], "id": odd if n % 500 == 0 else n} for n in range(2500))
    seq.append(3, group=["ended", 1], id=odd)
    found = {info.group: info.state for info in seq.find(odd)}
    assert {group: state for group, state in found.items() if group[0] == "dead"} == {
        ("dead", str(n)): "dead" for n in range(5)
    }
    assert {group for group in found if group[0] == "waits"} == {("waits", str(n)) for n in range(0, 2500, 500)}
    ended = {group: state for group, state in found.items() if group[0] == "ended"}
    assert ended == {("ended", str(n)): "due" if n == 1 else "finished" for n in range(1, 60, 2)}
    assert [info.group for info in seq.history(["ended", 3])] == [("ended", "3")]
    assert len(list(seq.history())) == 60
    assert seq.find("nobody") == []


@pytest.mark.parametrize("fails", [False, True])
def test_find_finds_a_message_that_ends_while_it_looks(make: MakeSequencer, *, fails: bool) -> None:
    """At whatever exchange: in its group, as a dead letter, or in the history."""
    worker = make(history_window=DAY_S, max_attempts=1, on_failure="dead_letter")

    def handle(message: Message) -> None:
        if fails:
            raise ValueError("no")

    class Ending(Wire):
        exchanges = 0

        def sending(self, commands: list[Any]) -> list[Any]:
            Ending.exchanges += 1
            if Ending.exchanges == at:
                worker.consume(handle, until_empty=True)
            return commands

    looker = make(redis=wired(worker.endpoint, Ending))
    for at in range(1, 9):  # Ending reads it
        id = worker.append(1, "g").id
        looker.find("nobody")
        Ending.exchanges = 0
        assert [info.id for info in looker.find(id)] == [id], at
        worker.consume(handle, until_empty=True)


def batch(shard: Shard, policy: Policy, *texts: str) -> Callable[[], None]:
    shard.rules(policy)
    shard.later(0.001)
    shard.append(item("g", f"a{shard.now}"), item("g", f"b{shard.now}"))
    lease = shard.claim()["g"]
    entry = Ack("g", lease.token, lease.members, True, endings=texts)
    return lambda: shard.run(ack(shard.keys, [entry])) and None


def test_off_costs_no_key_and_no_command(shard: Shard) -> None:
    plain = commands_of(shard.link, batch(shard, Policy(dedup_window=0)))
    assert not [key for key in shard.link.command("KEYS", shard.keys.prefix + "*") if b"histor" in key]
    assert shard.link.command("HGET", shard.keys.memory, "history:open") is None
    on = Policy(history_window=60, dedup_window=0)
    first = commands_of(shard.link, batch(shard, on, "f1 1 1 1\nme", "f1 1 1 1\nme"))
    later = commands_of(shard.link, batch(shard, on, "f1 1 1 1\nme", "f1 1 1 1\nme"))
    assert (later - plain, plain - later) == ({"hmget": 2, "hlen": 1, "hset": 1}, {})
    assert first.total() - plain.total() < 12
    shard.link.command("HSET", shard.keys.policy, "history_us", "0")
    assert commands_of(shard.link, batch(shard, Policy(dedup_window=0))) == plain
    assert ack(shard.keys, [Ack("g", "0" * 16, ["m"], True)]).args[-1] == "", "a queue without a history pays nothing"


def test_doctor_knows_the_buckets(make: MakeSequencer, link: Link, keys: ShardKeys) -> None:
    seq = make(history_window=DAY_S)
    seq.append({}, group="g", id="a")
    seq.consume(lambda message: None, until_empty=True)
    assert [one for one in seq.doctor() if one.level == "problem"] == []
    (name,) = link.command("ZRANGE", keys.histories, 0, -1)
    link.command("ZREM", keys.histories, name)
    found = list(InvariantCheck(link, [keys]).run())
    assert [one.code for one in found] == ["history unlisted"]
    assert [one.repaired for one in InvariantCheck(link, [keys], repair=True).run()] == [True]
    assert [info.id for info in seq.history()] == ["a"]
    link.command("SET", keys.history("1234567890123456"), "x")
    assert next(iter(InvariantCheck(link, [keys]).run())).code == "wrong type"
    link.command("DEL", keys.history("1234567890123456"))
    assert seq.delete() == 0
    assert not [key for key in link.command("KEYS", keys.prefix + "*") if b"histor" in key]
