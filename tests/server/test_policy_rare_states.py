"""Rare states in which a policy once lost a message, a number or the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.errors import BatchRefused, DataError
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys
from tests.support.handling import drain_once


def drain(seq: Sequencer) -> list[Any]:
    seen: list[Any] = []
    seq.consume(lambda message: seen.append(message.body), until_empty=True)
    return seen


def test_a_redriven_number_does_not_go_ahead_of_the_sequence(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq, keys = make(sequence=True, dead_letter_on=("ValueError",), dedup_window=0), shard_keys(namespace, "jobs", 0)
    for n in (1, 2, 3):
        seq.append(n, group="g", score=n)

    def handler(message: Message) -> None:
        if message.body == 3:
            raise ValueError("no")

    seq.consume(handler, until_empty=True)
    link.command("DEL", keys.marks)  # the group is forgotten
    seq.redrive("g")
    for n in (1, 4):
        seq.append(n, group="g", score=n)
    assert drain_once(seq) == [1, 3]
    assert drain_once(seq) == [], "4 waits for 2 and 3, as for a group of which nothing else is known"


def test_a_redriven_number_keeps_its_group_known(make: Callable[..., Sequencer], link: Link, namespace: str) -> None:
    seq, keys = make(sequence=True, dead_letter_on=("ValueError",), dedup_window=0), shard_keys(namespace, "jobs", 0)
    for n in (1, 2, 3):
        seq.append(n, group="g", score=n)

    def handler(message: Message) -> None:
        if message.body == 2 and not message.redriven:
            raise ValueError("no")

    seq.consume(handler, until_empty=True)
    seq.redrive("g")
    link.command("DEL", keys.marks)  # the window is over while it waits
    assert seq.append(1, group="g", score=1).duplicate
    seq.append(4, group="g", score=4)
    assert drain(seq) == [2, 4]


def test_a_refused_replace_in_a_transaction_is_an_error(make: Callable[..., Sequencer], server: EmbeddedServer) -> None:
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


def test_a_replace_that_can_not_be_finished_is_not_begun(
    make: Callable[..., Sequencer], link: Link, namespace: str
) -> None:
    seq, keys = make(), shard_keys(namespace, "jobs", 0)
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


@pytest.mark.parametrize("name", ["dispatch", "failures", "stats"])
def test_an_ack_checks_every_key_before_it_removes(
    make: Callable[..., Sequencer], link: Link, namespace: str, name: str
) -> None:
    seq, keys = make(sequence=True), shard_keys(namespace, "jobs", 0)
    for n in (1, 2):
        seq.append(n, group="g", score=n)
    with seq.claim() as lease:
        message = next(iter(lease))
        link.command("DEL", getattr(keys, name))
        link.command("SET", getattr(keys, name), "foreign")
        acts: tuple[Callable[[], object], ...] = (lambda: lease.ack(message), lambda: lease.nack(message, "no"))
        for act in acts:
            with pytest.raises(DataError):
                act()
        link.command("DEL", getattr(keys, name))
        assert len(seq.peek("g")) == 2
    assert drain(seq) == [1, 2]
