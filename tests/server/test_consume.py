"""Consuming in this process on a real server: order, batches, limits, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.errors import ConfigurationError, HandlerNotFound

from ..support.background import Background


def test_each_group_is_handled_in_order_of_score_then_arrival(seq: Sequencer) -> None:
    for n in range(300):
        seq.append(n, group=n % 3, score=(n * 7919) % 50)
    seen: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    summary = seq.consume(lambda m: seen.setdefault(m.group, []).append((m.score, m.stamp)), until_empty=True)
    assert (summary.reason, summary.handled, summary.failed, summary.lost) == ("drained", 300, 0, 0)
    assert len(seen) == 3
    assert all(keys == sorted(keys) for keys in seen.values())
    assert seq.info().groups == 0


def test_the_registered_handler_is_run(seq: Sequencer) -> None:
    seen: list[Any] = []

    @seq.handler
    def handle(message: Message) -> None:
        seen.append(message.body)

    seq.append("a", group="g")
    assert seq.consume(until_empty=True).handled == 1
    assert seen == ["a"]


def test_without_a_usable_handler_nothing_is_consumed(seq: Sequencer) -> None:
    async def coroutine(message: Message) -> None: ...

    with pytest.raises(HandlerNotFound, match="no handler"):
        seq.consume(until_empty=True)
    with pytest.raises(HandlerNotFound, match="not callable"):
        seq.consume("x", until_empty=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="coroutine"):
        seq.handler(coroutine)


def test_a_consumer_ends_after_so_many_messages_or_seconds(seq: Sequencer) -> None:
    for n in range(100):
        seq.append(n, group=n % 9)
    summary = seq.consume(lambda message: None, max_messages=40)
    assert (summary.reason, summary.handled) == ("recycled", 40)
    assert seq.info().backlog == 60
    assert seq.consume(lambda message: None, max_age=0.1).reason == "recycled"


def test_until_empty_waits_for_groups_that_others_hold(make: Callable[..., Sequencer]) -> None:
    seq = make()
    seq.append(1, group="g")
    lease = seq.claim(lease=30)
    seen: list[int] = []
    with Background(seq, lambda m: seen.append(m.body), until_empty=True) as background:
        assert background.thread.is_alive()
        lease.release()
        background.thread.join(10)
    assert seen == [1]
