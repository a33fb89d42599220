"""A phase of a run: producers and consumers start in the phase's order, and its end is waited for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.store.keys import shard_keys

from ..load.fleet import Fleet
from ..load.member import QUEUE

PhaseName = Literal["mixed", "drain"]
PHASES: tuple[PhaseName, ...] = ("mixed", "drain")
POLL_S = 0.005
SLOWEST_RATE = 500
"""Messages a second below which a phase is given up, after LIMIT_S more."""
LIMIT_S = 30.0


@dataclass(slots=True)
class Timing:
    """What is known of a phase before its history is read; it is kept when a process fails later."""

    began: float = 0.0
    append_rate: float | None = None
    problem: str = ""


def limit_s(messages: int) -> float:
    return LIMIT_S + messages / SLOWEST_RATE


def perform(name: PhaseName, producers: Fleet, drainers: Fleet, messages: int, timing: Timing) -> None:
    """Everything up to the end of the producers, in this phase's order. Raises MemberFailed."""
    producers.wait_ready()
    drainers.wait_ready()
    if name == "mixed":
        drainers.go()
    timing.began = began = producers.go()
    reports = producers.wait(limit_s(messages))
    timing.append_rate = messages / (max(report.ended for report in reports) - began)
    if name == "drain":
        timing.began = drainers.go()


def wait_drained(url: str, namespace: str, drainers: Fleet, seconds: float) -> str:
    """Wait until no group has messages; says what is wrong if that does not come. One cheap command a look."""
    link = Link(Endpoint.from_url(url))
    schedule, until = shard_keys(namespace, QUEUE, 0).schedule, time.monotonic() + seconds
    try:
        while left := link.command("ZCARD", schedule):
            if drainers.has_died or time.monotonic() > until:
                return f"{left} groups still had messages when a consumer died or {seconds:.0f} s had passed"
            time.sleep(POLL_S)
        return ""
    finally:
        link.close()


RATES = ("mixed", "drain", "append")
