"""What an idle consumer costs: managed servers are paid by the command."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.net.link import REFRESH_EVERY_S, Link
from sequencer.settings.pace import IDLE_S
from sequencer.testing import wait_until
from sequencer.testing.wire import Wire, wired

from ..support.background import Background
from ..support.link_clock import stopped_clock
from .test_idle_wait import is_blocked

PER_CONSUMER, PER_SHARD = 0.5, 0.2
"""Commands a second."""


class Counted(Wire):
    """Notes the commands of each connection, and when they were sent."""

    def __init__(self, inner: Any, seen: list[tuple[float, str]]) -> None:
        super().__init__(inner)
        self._seen = seen

    def sending(self, commands: list[Any]) -> list[Any]:
        self._seen += [(time.monotonic(), str(words[0])) for words in commands]
        return commands


@pytest.mark.parametrize("shards", [1, 4])
def test_an_idle_consumer_costs_half_a_command_a_second(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """Two whole waits, and the look of each minute."""
    clock, seen = stopped_clock(monkeypatch), list[tuple[float, str]]()

    def waits() -> list[int]:
        return [at for at, (_, name) in enumerate(seen) if name == "BLPOP"]

    client = make(redis=wired(seq.endpoint, lambda inner: Counted(inner, seen)), shards=shards)
    with Background(client, lambda message: None):
        wait_until(lambda: is_blocked(link), what="it waits")
        known = len(waits())
        wait_until(lambda: len(waits()) > known, what="it waits for the second time")
        clock.now += REFRESH_EVERY_S + 1
        wait_until(lambda: len(waits()) > known + 1, what="it waits for the third time, behind a look")
        first, second, third = waits()[known - 1 : known + 2]
    per_wait, with_look = second - first, third - second
    assert (per_wait, seen[second][0] - seen[first][0] > 0.95 * IDLE_S) == (1 + shards, True)
    rate = per_wait / IDLE_S + (with_look - per_wait) / REFRESH_EVERY_S
    assert rate <= PER_CONSUMER + PER_SHARD * (shards - 1)


def test_what_is_due_soon_starts_on_time_though_its_consumer_waits_longer(
    make: Callable[..., Sequencer], seq: Sequencer, link: Link
) -> None:
    """A retry after the failure of a consumer that goes away, and an append with a delay."""
    begun: dict[str, float] = {}
    seq.append("x", group="a", id="retry")
    lease = seq.claim()
    with Background(make(), lambda message: begun.setdefault(message.id, time.monotonic())):
        wait_until(lambda: is_blocked(link), what="it waits")
        failed = time.monotonic()
        lease.nack(next(iter(lease)), "no", after=0.3)
        wait_until(lambda: "retry" in begun)
        wait_until(lambda: is_blocked(link), what="it waits again")
        appended = time.monotonic()
        seq.append("x", group="b", id="delayed", delay=0.3)
        wait_until(lambda: "delayed" in begun)
    assert 0.25 < begun["retry"] - failed < IDLE_S / 4
    assert 0.25 < begun["delayed"] - appended < IDLE_S / 4
