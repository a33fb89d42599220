"""Shards on several nodes: one that is silent or away holds back nobody but itself."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sequencer import EmbeddedServer, Message, Sequencer
from sequencer.consume import hub
from sequencer.drain import slots
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.net.wait import Waiter
from sequencer.store.group import shard_of
from sequencer.testing import wait_until
from tests.support.handling import Make
from tests.support.proxy.fault_proxy import FaultProxy

from ..support.background import Background

SHARDS, FROZEN, FREEZE_S, PATIENCE_S = 4, 1, 30.0, 3.0
GROUPS = [next(str(n) for n in range(1000) if shard_of(str(n), SHARDS) == shard) for shard in range(SHARDS)]
"""One of each shard."""


class Nodes(Endpoint):
    """Each shard is reached through a proxy of its own."""

    proxies: list[FaultProxy]

    def of_shards(self, count: int) -> list[Endpoint]:
        return [Endpoint.from_url(proxy.url) for proxy in self.proxies[:count]]


@pytest.fixture
def nodes(server: EmbeddedServer) -> Iterator[Nodes]:
    directory, plain = Path(tempfile.mkdtemp(prefix="sqn-")), Endpoint.from_url(server.url)
    nodes = Nodes(plain.make, plain.name, plain.url, pool=plain._pool)
    nodes.proxies = [FaultProxy(server.url, directory / str(shard)) for shard in range(SHARDS)]
    yield nodes
    for proxy in nodes.proxies:
        proxy.close()
    shutil.rmtree(directory)


def append(seq: Sequencer, body: int) -> None:
    for group in GROUPS:
        seq.append(body, group=group)


def freeze(nodes: Nodes) -> None:
    nodes.proxies[FROZEN].add("black hole", seconds=FREEZE_S)


def others_go_on(make: Make, nodes: Nodes, kind: str, concurrency: int) -> None:
    """While a shard is silent, each message of the others is handled within PATIENCE_S."""
    producer, handled = make("wide", shards=SHARDS), dict[str, list[Any]]({group: [] for group in GROUPS})

    def plain(message: Message) -> None:
        handled[message.group[0]].append(message.body)

    async def coroutine(message: Message) -> None:
        await asyncio.sleep(0)
        plain(message)

    def have(number: int, *groups: str) -> bool:
        return all(number in handled[group] for group in groups)

    handler: Any = coroutine if kind == "loop" else plain
    append(producer, 0)
    freeze(nodes)
    with Background(make("wide", redis=nodes), handler, concurrency=concurrency, lease=60):
        for number in range(1, 30):
            append(producer, number)
            wait_until(partial(have, number, *(group for group in GROUPS if group != GROUPS[FROZEN])), PATIENCE_S)
        assert not handled[GROUPS[FROZEN]]
        nodes.proxies[FROZEN].clear()
        wait_until(lambda: have(29, *GROUPS), PATIENCE_S)
    assert [*handled.values()] == [[*range(30)]] * SHARDS


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "concurrency"), [("plain", 1), ("plain", 3), ("loop", 1), ("loop", 3)])
def test_a_silent_shard_holds_back_nobody_else(make: Make, nodes: Nodes, kind: str, concurrency: int) -> None:
    others_go_on(make, nodes, kind, concurrency)


@pytest.mark.nightly
def test_a_slot_that_waits_for_each_claim_is_held_back(
    make: Make, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A control."""
    monkeypatch.setattr(slots, "SLOW_S", 60.0)
    with pytest.raises(AssertionError, match="not within"):
        others_go_on(make, nodes, "plain", 1)


@pytest.mark.slow
@pytest.mark.parametrize("is_pushed_back", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_who_is_busy_keeps_no_hint_from_others(
    make: Make, nodes: Nodes, link: Link, monkeypatch: pytest.MonkeyPatch, is_pushed_back: bool
) -> None:
    """Two of three consumers hang in a handler, and still listen to the other shards."""
    for module in (hub, slots):
        monkeypatch.setattr(module, "IDLE_S", 600.0)  # nobody looks without a hint
    if not is_pushed_back:  # a control
        monkeypatch.setattr(Waiter, "push_back", lambda self: None)
    producer, handled, over = make("wide", shards=SHARDS), list[Any](), threading.Event()
    took_s = list[float]()

    def handle(message: Message) -> None:
        if isinstance(message.body, float):
            took_s.append(time.monotonic() - message.body)
        else:
            handled.append(message.body)
        if message.body == "busy":
            over.wait(30)

    producer.append("first", group=GROUPS[0])
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(Background(make("wide", redis=nodes), handle, lease=60))
        stack.callback(over.set)
        wait_until(lambda: handled and link.command("CLIENT", "LIST").count(b"cmd=blpop") >= 3 * SHARDS)
        with nullcontext() if is_pushed_back else pytest.raises(AssertionError, match="not within"):
            for count, group in enumerate(GROUPS[:2], 1):
                producer.append("busy", group=group)
                wait_until(lambda count=count: handled.count("busy") == count, PATIENCE_S)  # type: ignore[misc]
            for number in range(30):
                producer.append(time.monotonic(), group=GROUPS[2 + number % 2])
                wait_until(lambda number=number: len(took_s) > number, PATIENCE_S)  # type: ignore[misc]
            print(f"from append to handler at most {1000 * max(took_s):.1f} ms of {len(took_s)}")


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [None, 3])
def test_limits_hold_over_all_shards(make: Make, nodes: Nodes, concurrency: int | None) -> None:
    seq = make("wide", shards=SHARDS)
    seq.append_many({"body": n, "group": n % 12} for n in range(60))

    def consume(**options: Any) -> tuple[str, int]:
        done = make("wide", redis=nodes).consume(lambda _: None, concurrency=concurrency, **options)
        return done.reason, done.handled

    assert consume(max_messages=7) == ("recycled", 7)
    assert consume(until_empty=True) == ("drained", 53)
    freeze(nodes)
    began = time.monotonic()
    assert consume(max_age=0.3) == ("recycled", 0)
    assert time.monotonic() - began < FREEZE_S / 2


@pytest.mark.slow
def test_a_signal_ends_a_handler_that_waits(make: Make, nodes: Nodes) -> None:
    make("wide", shards=SHARDS).append(1, group="g")
    seq = make("wide", redis=nodes, max_attempts=1)
    assert seq.consume(lambda _: time.sleep(30), handler_timeout=0.2, until_empty=True).failed == 1
    assert [info.failure.type for info in seq.parked() if info.failure] == ["HandlerTimeout"]


def test_at_the_end_all_shards_are_asked_at_the_same_time(
    make: Make, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those of a frozen node would take the time limit of a call each."""
    together = threading.Barrier(SHARDS)
    monkeypatch.setattr(hub.Hub, "_send_acks", lambda self, asker: together.wait(10))
    make("wide", shards=SHARDS).append(1, group="g")
    assert make("wide", redis=nodes).consume(lambda _: None, until_empty=True).handled == 1
    assert not together.broken
