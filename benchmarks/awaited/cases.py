"""What takes turns: each case with its systems, and what one process of each is to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..peers.systems import ALL as PEERS
from ..peers.systems import HIREDIS, System

PARTS = ("loop", "threads", "noop", "append", "delay", "single")
OURS, BARE, SINGLE, BEFORE = "sequencer", "no queue", "single slot", "single slot before"
THREADS, BLOCKING, POOL = "sequencer, threads", "one by one, blocking", "redis.asyncio, pool"
LONG, SHORT = "no-op, long groups", "no-op, one each"
LOOP, IN_THREADS, APPEND, DELAY = "50 ms, 500 at once", "20 ms, 32 threads", "append, 100 tasks", "append to handler"
FASTSTREAM = System("faststream", "python", ("faststream[redis]==0.7.8", HIREDIS), is_ordered=False)
DOCKET = System("docket", "python", ("pydocket==0.27.0", HIREDIS), is_ordered=False)
OTHERS = {one.name: one for one in (PEERS["taskiq"], FASTSTREAM, PEERS["saq"], PEERS["streaq"], DOCKET)}
PEER_MESSAGES = {"taskiq": 15_000, "faststream": 15_000}
"""Of the others, which are slower, fewer."""


@dataclass(frozen=True, slots=True)
class Case:
    """One system in one case. `consume` and `produce`: the settings of its processes, None where there is none."""

    case: str
    system: str
    worker: str
    messages: int
    groups: int
    consume: Mapping[str, Any] | None = None
    produce: Mapping[str, Any] | None = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        return self.worker in ("sequencer", "redis")


def cases(parts: tuple[str, ...], scale: float, peers: tuple[str, ...], before: str) -> Iterator[Case]:
    """Those of the parts. `scale` of the usual number of messages, and with few of them fewer handlers at once."""

    def many(messages: int) -> int:
        return max(100, round(messages * scale))

    if "loop" in parts:
        at_once = min(500, many(5000))
        setting = {"is_async": True, "concurrency": at_once, "sleep_s": 0.05}
        yield Case(LOOP, BARE, "no_queue", many(30_000), at_once, setting, None)
        yield Case(LOOP, OURS, "sequencer", many(30_000), at_once, setting)
        for peer in peers:
            more = {**setting, "is_stream": True}
            count = many(PEER_MESSAGES.get(peer, 5_000))
            yield Case(LOOP, peer, peer, count, at_once, more, {**more, "window": 100})
    if "threads" in parts:
        setting = {"is_async": False, "concurrency": 32, "sleep_s": 0.02}
        yield Case(IN_THREADS, BARE, "no_queue", many(6_400), 200, setting, None)
        yield Case(IN_THREADS, OURS, "sequencer", many(6_400), 200, setting)
    for case, messages, groups in ((LONG, many(120_000), many(2_000)), (SHORT, many(30_000), many(30_000))):
        if "noop" in parts:
            yield Case(case, OURS, "sequencer", messages, groups, {"is_async": True, "concurrency": 100})
        if "noop" in parts or "single" in parts:
            yield Case(case, SINGLE, "sequencer", messages, groups, {"is_async": False})
        if ("noop" in parts or "single" in parts) and before:
            tree = {"tree": before}
            yield Case(case, BEFORE, "sequencer", messages, groups, {"is_async": False, **tree}, tree)
    if "append" in parts:
        yield Case(APPEND, OURS, "sequencer", many(20_000), 1000, None, {"tasks": 100})
        yield Case(APPEND, BLOCKING, "sequencer", many(20_000), 1000, None, {"is_single": True})
        yield Case(APPEND, POOL, "redis", many(10_000), 1000, None, {"tasks": 100})
    if "delay" in parts:
        pace = {"pace": 200}
        yield Case(DELAY, OURS, "sequencer", many(1_000), 500, {"is_async": True, "concurrency": 100}, pace)
        yield Case(DELAY, THREADS, "sequencer", many(1_000), 500, {"is_async": False, "concurrency": 32}, pace)
        yield Case(DELAY, SINGLE, "sequencer", many(1_000), 500, {"is_async": False}, pace)
