"""Races and rare states of the policies: each once lost, doubled or wedged a message."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from sequencer import EmbeddedServer, Message, Sequencer, SetAside
from sequencer.errors import BatchRefused, ConfigurationError, DataError, IdConflict
from sequencer.net.link import Link
from sequencer.queue.registry import generation_search
from sequencer.store.keys import ShardKeys
from sequencer.testing import wait_until
from tests.support.handling import Make, ack_each, drain, drain_once, fail

from ..support.background import Background
from ..support.refused import refused


def after_look(monkeypatch: pytest.MonkeyPatch, others: list[Sequencer]) -> None:
    """Let another client connect between the next look at the registry and what follows it."""
    real = generation_search.look_at

    async def slow(*given: Any, **options: Any) -> Any:
        found = await real(*given, **options)
        if others:
            others.pop().connect()
        return found

    monkeypatch.setattr(generation_search, "look_at", slow)


def test_two_clients_at_the_first_use_do_not_undo_each_others_policy(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reads that there is no policy, the other sets its own, the first one writes the defaults."""
    others = [make(sequence=True, gap_timeout=7)]
    after_look(monkeypatch, others)
    seq = make()
    seq.connect()
    assert (seq.policy.sequence, seq.policy.gap_timeout, seq.policy.dedup_window) == (True, 7, 300)
    assert seq.append(1, group="g", score=1).id == "1"
    others.append(make("new", sequence=True))
    with refused(ConfigurationError, "option_fixed", name="sequence", before=True, value=False):
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
def test_a_changed_rule_reaches_groups_that_were_put_off(make: Make, before: Any, after: Any, score: int) -> None:
    seq = make(**before)
    seen: list[Any] = []
    seq.append_many({"body": n, "group": n, "score": score} for n in range(450))
    with Background(seq, lambda message: seen.append(message.body)):
        wait_until(lambda: not seq.info().due)
        assert seen == []
        make(**after).connect()
        wait_until(lambda: len(seen) == 450)


def test_many_groups_parked_at_gaps_are_looked_at_once_each(make: Make) -> None:
    """Consumers park them again as fast as they are woken: that must end."""
    seq = make(sequence=True, gap_timeout=0)
    seq.append_many({"group": n, "body": n, "score": 2} for n in range(300))
    with Background(seq, fail):
        wait_until(lambda: seq.info().parked == 300)
        make(gap_timeout=0.001).connect()
        wait_until(lambda: seq.info().parked == 300)
        assert seq.info().totals["parked"] <= 600


def test_two_policies_that_exclude_each_other_are_never_both_stored(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_look(monkeypatch, [make(sequence=True)])
    with refused(ConfigurationError, "not_with_sequence", name="reorder_window", value=5):
        make(reorder_window=5).connect()
    assert (make().policy.sequence, make().policy.reorder_window) == (True, 0)


def test_a_replaced_head_does_not_hold_back_what_is_due_behind_it(make: Make) -> None:
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


def test_replace_keeps_the_rules_of_score(make: Make) -> None:
    seq = make("numbers", sequence=True)
    for n in (1, 2):
        seq.append(n, group="g", score=n, id=f"m{n}")
    with pytest.raises(IdConflict):
        seq.append("new", group="g", score=1, id="m2", replace=True)
    with pytest.raises(BatchRefused):
        seq.append_many([{"group": "g", "body": "new", "score": 1, "id": "m2"}], replace=True)
    seq.append("two", group="g", score=2, id="m2", replace=True)
    assert drain(seq) == [1, "two"]


def test_a_group_with_messages_keeps_its_number_whatever_the_cap(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(sequence=True, watermark_cap=2)
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
    assert link.command("HLEN", keys.sequences) == 0
    assert seq.append("again", group="live", score=2, id="new").duplicate, (
        "and behind its last message it is remembered"
    )


def test_a_damaged_group_is_left_as_it_is(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(max_attempts=1)
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


def test_a_redriven_number_does_not_go_ahead_of_the_sequence(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(sequence=True, dead_letter_on=("ValueError",), dedup_window=0)
    for n in (1, 2, 3):
        seq.append(n, group="g", score=n)

    def handler(message: Message) -> None:
        if message.body == 3:
            raise ValueError("no")

    seq.consume(handler, until_empty=True)
    link.command("DEL", keys.watermarks)  # the group is forgotten
    seq.redrive("g")
    for n in (1, 4):
        seq.append(n, group="g", score=n)
    assert drain_once(seq) == [1, 3]
    assert drain_once(seq) == [], "4 waits for 2 and 3, as for a group of which nothing else is known"


def test_a_redriven_number_keeps_its_group_known(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make(sequence=True, dead_letter_on=("ValueError",), dedup_window=0)
    for n in (1, 2, 3):
        seq.append(n, group="g", score=n)

    def handler(message: Message) -> None:
        if message.body == 2 and not message.redriven:
            raise ValueError("no")

    seq.consume(handler, until_empty=True)
    seq.redrive("g")
    link.command("DEL", keys.watermarks)  # the window is over while it waits
    assert seq.append(1, group="g", score=1).duplicate
    seq.append(4, group="g", score=4)
    assert drain(seq) == [2, 4]


def test_a_refused_replace_in_a_transaction_is_an_error(make: Make, server: EmbeddedServer) -> None:
    seq = make(sequence=True)
    for n in (1, 2):
        seq.append(n, group="g", score=n, id=f"m{n}")
    with redis.Redis.from_url(server.url) as client, client.pipeline() as pipeline:
        seq.append("new", group="g", score=1, id="m2", replace=True, pipeline=pipeline)
        with pytest.raises(redis.ResponseError, match="IDCONFLICT"):
            pipeline.execute()
        seq.append("new", group="g", score=2, id="m2", replace=True, pipeline=pipeline)
        pipeline.execute()
    assert drain(seq) == [1, "new"]


def test_a_replace_that_can_not_be_finished_is_not_begun(make: Make, link: Link, keys: ShardKeys) -> None:
    seq = make()
    seq.append("old", group="a", id="x")
    link.command("SET", keys.order("b"), "foreign")
    items = [{"group": "a", "body": "new", "id": "x"}, {"group": "b", "body": 1}]
    for on_refused in ("skip", "stop"):
        with pytest.raises(DataError):
            seq.append_many(items, replace=True, on_refused=on_refused)
    assert [message.body for message in seq.peek("a")] == ["old"]
    link.command("DEL", keys.order("b"))
    numbers = make("numbers", sequence=True)
    with pytest.raises(BatchRefused):
        numbers.append_many([{"group": "g", "body": i, "score": 1, "id": i} for i in "ab"], replace=True)
    assert numbers.info().backlog == 0
