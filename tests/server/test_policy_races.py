"""Races and rare states of the policies: each once lost, doubled or wedged a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Message, Sequencer, SetAside
from sequencer.errors import BatchRefused, ConfigurationError, DataError, IdConflict
from sequencer.net.link import Link
from sequencer.queue.registry import generation_search
from sequencer.store.keys import shard_keys
from sequencer.testing import wait_until
from tests.support.handling import ack_each

from ..support.background import Background
from .conftest import command


def drain(seq: Sequencer) -> list[Any]:
    seen: list[Any] = []
    seq.consume(lambda message: seen.append(message.body), until_empty=True)
    return seen


def fail(_: Message) -> None:
    raise ValueError("no")


def after_look(monkeypatch: pytest.MonkeyPatch, others: list[Sequencer]) -> None:
    """Let another client connect between the next look at the registry and what follows it."""
    real = generation_search.look_at

    async def slow(*given: Any) -> Any:
        found = await real(*given)
        if others:
            others.pop().connect()
        return found

    monkeypatch.setattr(generation_search, "look_at", slow)


# -- races ------------------------------------------------------------------------------------------------------


def test_two_clients_at_the_first_use_do_not_undo_each_others_policy(
    make: Callable[..., Sequencer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reads that there is no policy, the other sets its own, the first one writes the defaults."""
    others = [make(sequence=True, gap_timeout=7)]
    after_look(monkeypatch, others)
    seq = make()
    seq.connect()
    assert (seq.policy.sequence, seq.policy.gap_timeout, seq.policy.dedup_window) == (True, 7, 300)
    assert seq.append(1, group="g", score=1).id == "1"
    others.append(make("new", sequence=True))
    with pytest.raises(ConfigurationError, match="sequence=True since its first use"):
        make("new", sequence=False).connect()
    assert drain(seq) == [1]


@pytest.mark.parametrize(
    ("before", "after", "score"),
    [
        ({"reorder_window": 600}, {"reorder_window": 0}, 5),
        ({"sequence": True, "gap_timeout": 600}, {"gap_timeout": 0.05, "on_gap": "skip"}, 5),
        ({"sequence": True, "gap_timeout": 0}, {"on_gap": "skip"}, 5),
    ],
)
def test_a_changed_rule_reaches_groups_that_were_put_off(
    make: Callable[..., Sequencer], before: Any, after: Any, score: int
) -> None:
    seq = make(**before)
    seen: list[Any] = []
    for n in range(450):
        seq.append(n, group=n, score=score)
    with Background(seq, lambda message: seen.append(message.body)):
        wait_until(lambda: not seq.info().due)
        assert seen == []
        make(**after).connect()
        wait_until(lambda: len(seen) == 450)


def test_many_groups_parked_at_gaps_are_looked_at_once_each(make: Callable[..., Sequencer]) -> None:
    """Consumers park them again as fast as they are woken: that must end."""
    seq = make(sequence=True, gap_timeout=0)
    seq.append_many({"group": n, "body": n, "score": 2} for n in range(300))
    with Background(seq, fail):
        wait_until(lambda: seq.info().parked == 300)
        make(gap_timeout=0.001).connect()
        wait_until(lambda: seq.info().parked == 300)
        assert seq.info().totals["parked"] <= 600


def test_two_policies_that_exclude_each_other_are_never_both_stored(
    make: Callable[..., Sequencer], monkeypatch: pytest.MonkeyPatch
) -> None:
    after_look(monkeypatch, [make(sequence=True)])
    with pytest.raises(ConfigurationError, match="reorder_window=5 with sequence=True"):
        make(reorder_window=5).connect()
    assert (make().policy.sequence, make().policy.reorder_window) == (True, 0)


# -- rare states ------------------------------------------------------------------------------------------------


def test_a_replaced_head_does_not_hold_back_what_is_due_behind_it(make: Callable[..., Sequencer]) -> None:
    seq = make(max_attempts=1)
    seq.append("a", group="g", id="a", score=1)
    seq.append("b", group="g", id="b", score=2)
    seq.consume(fail, max_messages=1)
    seq.append("later", group="g", id="a", delay=50, replace=True)
    with seq.claim() as lease:
        assert ack_each(lease) == ["b"]
    seq.append("h", group="h", id="h", delay=0.2)
    seq.append("i", group="h", id="i", delay=0.3)
    assert not seq.claim()
    seq.append("later", group="h", id="h", delay=60, replace=True)
    wait_until(lambda: (explained := seq.explain("h")).reason in ("due", "delayed") and (explained.head_id == "i"))
    seq.cancel("h", "h")
    seq.cancel("g", "a")
    assert drain(seq) == ["i"]


def test_replace_keeps_the_rules_of_score(make: Callable[..., Sequencer]) -> None:
    seq = make("numbers", sequence=True)
    for n in (1, 2):
        seq.append(n, group="g", score=n, id=f"m{n}")
    with pytest.raises(IdConflict):
        seq.append("new", group="g", score=1, id="m2", replace=True)
    with pytest.raises(BatchRefused):
        seq.append_many([{"group": "g", "body": "new", "score": 1, "id": "m2"}], replace=True)
    seq.append("two", group="g", score=2, id="m2", replace=True)
    assert drain(seq) == [1, "two"]


def test_more_gaps_than_are_told_apart_lose_no_message(make: Callable[..., Sequencer]) -> None:
    seq = make(sequence=True, on_gap="skip", gap_timeout=0, dedup_window=0)
    for n in range(2, 82, 2):
        seq.append(n, group="g", score=n)
    assert drain(seq) == list(range(2, 82, 2))
    for n in (1, 3, 41, 79):
        assert seq.append(n, group="g", score=n).outcome == "stored"
    assert drain(seq) == [1, 3, 41, 79]
    assert seq.append(80, group="g", score=80).duplicate


def test_a_group_with_messages_keeps_its_number_whatever_the_cap(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq, keys = make(sequence=True, watermark_cap=2), shard_keys(namespace, "jobs", 0)
    seq.append(1, group="live", score=1)
    assert drain(seq) == [1]
    for score, way in ((2, "waits"), (3, "is cancelled")):
        seq.append(score, group="live", score=score, delay=50 if way == "is cancelled" else 0.3)
        for n in range(8):
            seq.append(n, group=[way, n], score=1)
            with seq.claim() as lease:
                lease.ack(next(iter(lease)))
        if way == "waits":
            assert drain(seq) == [2]
        else:
            seq.cancel("live", str(score))
    assert link.command("HLEN", keys.numbers) == 0
    assert seq.append("again", group="live", score=2, id="new").duplicate, (
        "and behind its last message it is remembered"
    )


def test_a_damaged_group_is_left_as_it_is(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    seq, keys = make(max_attempts=1), shard_keys(namespace, "jobs", 0)
    seq.append(1, group="g", id="x", delay=50)
    seq.append(2, group="h", id="y")

    def aside(_: Message) -> None:
        raise SetAside

    seq.consume(aside, max_messages=1)
    saved = link.command("DUMP", keys.order("g"))
    for group in ("g", "h"):
        link.command("SET", keys.order(group), "foreign")
    before = {key: link.command("DUMP", key) for key in link.command("KEYS", keys.prefix + "*")}
    for act in (
        lambda: seq.reschedule("g", "x", delay=1),
        lambda: seq.cancel("g", "x"),
        lambda: seq.redrive(everything=True),
    ):
        with pytest.raises(DataError):
            act()
    assert {key: link.command("DUMP", key) for key in link.command("KEYS", keys.prefix + "*")} == before
    link.command("DEL", keys.order("h"))
    link.command("RESTORE", keys.order("g"), 0, saved, "REPLACE")
    seq.reschedule("g", "x", delay=0)
    seq.redrive(everything=True)
    assert sorted(drain(seq)) == [1, 2]


def test_a_lost_generation_stops_nobody(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    seq, keys = make(dedup_cap=1, watermark_cap=1), shard_keys(namespace, "jobs", 0)
    seq.append(1, group="g")
    assert drain(seq) == [1]
    link.command("DEL", keys.seen, keys.marks)
    link.command("HINCRBY", keys.memory, "seen:began", -(10**9))
    seq.append(2, group="g")
    assert drain(seq) == [2]


def test_a_full_server_lets_failing_handlers_drain_it(start_server: Callable[..., str], namespace: str) -> None:
    """Redis refuses a whole MULTI at its maxmemory; dead letters and acknowledgements must get through."""
    path = start_server()
    with Sequencer("jobs", f"unix://{path}", namespace=namespace, on_failure="dead_letter", max_attempts=1) as seq:
        for n in range(40):
            seq.append(n, group=n % 5, score=n)
        command(path, "CONFIG", "SET", "maxmemory", "1")
        seen: list[int] = []

        def handler(message: Message) -> None:
            if message.body % 4 == 0:
                raise ValueError("no")
            seen.append(message.body)

        seq.consume(handler, until_empty=True)
        assert len(seen) == 30
        assert seq.info().dead == 10
