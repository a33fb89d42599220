"""Storms over consumer processes with hundreds of worker slots: SIGKILL and SIGSTOP, and messages that kill.

Every run of a handler is an event of a history, which is judged: nothing lost, nothing out of order. Beside killer
messages: nobody but they is parked, nobody else is charged more than twice, and healthy messages do not wait.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

from ..support.judge.history import Event, Recorder, read_events
from ..support.judge.judgement import judge
from .conftest import Cli, Running
from .test_real_log import EVENTS, real_log

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(400)]

APP = f"""
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
"""
APP += """
import asyncio, os, random, signal, time
from contextlib import contextmanager
from functools import cache

from sequencer.consume.emitter import ConsumerEvents
from tests.support.judge.history import Recorder, run_fields

took = ConsumerEvents.took


def noting_suspects(self, groups):
    for group in groups:
        if group.expired_owner:
            recorder().note("seen", kind="suspect", group=group.key)
    took(self, groups)


ConsumerEvents.took = noting_suspects


@cache
def recorder():
    return Recorder(f"{os.getpid()}.events")


def seconds(message):
    first, last = message.body["seconds"]
    return random.Random(f"{message.id}:{message.token}").uniform(first, last)


@contextmanager
def recorded(message):
    fields = run_fields(message)
    recorder().note("begun", **fields)
    try:
        yield
        if "kills" in message.body:
            os.kill(os.getpid(), signal.SIGKILL)
        if random.Random(f"{message.token}:{message.id}").random() < message.body.get("fails", 0):
            raise ValueError("so it was drawn")
    except BaseException as error:
        recorder().note("failed", kind=type(error).__name__, **fields)
        raise
    recorder().note("ended", **fields)


def on_threads(message):
    with recorded(message):
        time.sleep(seconds(message))


async def on_loop(message):
    with recorded(message):
        await asyncio.sleep(seconds(message))
"""
LEASE_S, LONG_S = 2.0, 120.0
CONSUMERS, PER_S = 2, 400


class Storm:
    """Consumer processes of queue `jobs`, and what is done to them."""

    def __init__(self, cli: Cli, seq: Sequencer, seed: int, *words: object) -> None:
        (cli.directory / "storm.py").write_text(APP)
        self._cli, self._queue, self.random = cli, seq, random.Random(seed)
        self._recorder = Recorder(cli.directory / "test.events", "test")
        self.running: Running = cli.start("consume", "jobs", "--lease", LEASE_S, *words)
        self._stopped: dict[int, tuple[float, float]] = {}
        """Process -> when it was stopped, and until when."""
        self.faults = Counter[str]()
        self.killed_at: list[float] = []

    def append(self, items: list[dict[str, Any]]) -> None:
        for item in items:
            self._recorder.note("appending", group=str(item["group"]), id=item["id"], score=item.get("score", 0.0))
        assert self._queue.append_many(items).appended == len(items)
        for item in items:
            self._recorder.note("appended", group=str(item["group"]), id=item["id"], kind="stored")

    def kill(self) -> None:
        if pid := self._victim():
            at = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            self._fault("process killed", pid, at, time.monotonic())
            self.killed_at.append(at)

    def stop(self, leases: float) -> None:
        """SIGSTOP for so long; `tend` ends it."""
        if pid := self._victim():
            at = time.monotonic()
            self._stopped[pid] = at, at + leases * LEASE_S
            os.kill(pid, signal.SIGSTOP)

    def tend(self, *, everything: bool = False) -> None:
        for pid, (at, until) in [*self._stopped.items()]:
            if everything or time.monotonic() >= until:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                self._fault("process stopped", pid, at, time.monotonic())
                del self._stopped[pid]

    def _victim(self) -> int | None:
        some = sorted({*self.running.consumers()} - self._stopped.keys())
        return self.random.choice(some) if some else None

    def _fault(self, kind: str, pid: int, at: float, until: float) -> None:
        self.faults[kind] += 1
        self._recorder.note("fault", at=at, until=until, who=str(pid), kind=kind)

    def events(self) -> list[Event]:
        return [*read_events(self._cli.directory.glob("*.events"))]

    @contextmanager
    def tended(self) -> Iterator[None]:
        """Within, who was stopped goes on in time."""
        over = threading.Event()

        def tend() -> None:
            while not over.wait(0.02):
                self.tend()

        thread = threading.Thread(target=tend)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.tend(everything=True)

    def end(self) -> None:
        self.running.signal()
        assert self.running.ended() == 0, self.running.stderr


@pytest.mark.parametrize("kind", ["on_loop", "on_threads"])
def test_kills_and_stops_on_the_real_log_lose_nothing(cli: Cli, seq: Sequencer, kind: str) -> None:
    log = [json.loads(line) for line in real_log()]
    words = ("--app", f"storm:{kind}", "--concurrency", 200, "-n", 2)
    storm = Storm(cli, seq, 1, *words, "--max-attempts", 20)
    body = {"seconds": [0.02, 0.4], "fails": 0.01}
    storm.append([{"group": e["case"], "id": str(e["n"]), "score": e["ts"], "body": body} for e in log])
    until = time.monotonic() + LONG_S
    with storm.tended():
        while seq.info().backlog and time.monotonic() < until:
            threading.Event().wait(storm.random.uniform(1.5, 4.0))
            storm.stop(storm.random.uniform(0.5, 2.5)) if storm.random.random() < 0.4 else storm.kill()
    wait_until(lambda: not seq.info().groups, LONG_S, "all is handled")
    storm.end()
    judged = judge(storm.events(), ack_s=1.0)
    print(f"{kind}: {judged.runs} runs, {dict(storm.faults)}, again {judged.duplicates} of {judged.duplicates_allowed}")
    assert judged.messages == EVENTS
    assert (judged.losses, judged.disorder, judged.unexplained) == (0, 0, 0), judged.cases
    assert storm.faults["process killed"] >= 3
    assert storm.faults["process stopped"] >= 2
    assert not [*seq.parked()]


SEEDS = range(int(os.environ.get("BLAME_SEEDS", "1")))
"""Each takes a minute and a half: one at night, the others by hand."""
KILLERS, KILLS, HANDLER_S = 3, 6, 0.4
DRAIN_S = 2.0
"""For which those that waited for a process to start fill all slots."""


@pytest.mark.parametrize("seed", SEEDS)
def test_killers_are_parked_and_nobody_else(cli: Cli, seq: Sequencer, seed: int) -> None:
    """Each message is of a group of its own, so that every attempt is one of it alone."""
    storm = Storm(cli, seq, seed, "--app", "storm:on_loop", "--concurrency", 500, "-n", CONSUMERS)
    wait_until(lambda: len(storm.running.consumers()) == CONSUMERS, 20.0, "consumers")
    number = 0

    def feed(seconds: float) -> None:
        """Healthy messages, PER_S a second."""
        nonlocal number
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            some = range(number, number := number + PER_S // 20)
            body = {"seconds": [HANDLER_S / 2, HANDLER_S]}
            storm.append([{"group": f"h{n}", "id": f"h{n}", "body": body} for n in some])
            threading.Event().wait(0.05)

    feed(2.0)
    wait_until(lambda: any(event.what == "ended" for event in storm.events()), 20.0, "work")
    calm_from = time.monotonic()
    feed(4.0)
    calm_until = time.monotonic()
    for n in range(KILLERS):
        body = {"seconds": [0.0, 0.05], "kills": True}
        storm.append([{"group": f"killer{n}", "id": f"killer{n}", "body": body}])
        feed(storm.random.uniform(0.2, 1.0))
    for _ in range(KILLS):
        storm.kill()
        feed(storm.random.uniform(0.5, 3.0))
    until = time.monotonic() + LONG_S
    while len([*seq.parked()]) < KILLERS and time.monotonic() < until:
        feed(0.5)
    feed(LEASE_S + 5.0)
    wait_until(lambda: seq.info().groups == KILLERS, LONG_S, "all is handled")
    parked = sorted(info.group[0] for info in seq.parked())
    storm.end()
    found = Blame(storm.events(), storm.killed_at, (calm_from, calm_until))
    print(f"seed {seed}: {number} messages, {found}")
    assert parked == [f"killer{n}" for n in range(KILLERS)]
    assert max(found.charged, default=0) <= 2
    assert found.p99_s <= found.calm_p99_s + HANDLER_S
    assert found.suspects_s <= LEASE_S + 5.0


class Blame:
    """Who was charged, how long healthy messages waited, and when the last suspect was done."""

    def __init__(self, events: list[Event], killed_at: list[float], calm: tuple[float, float]) -> None:
        clock = time.time() - time.monotonic()
        begun = sorted((e for e in events if e.what == "begun"), key=lambda e: e.at)
        ended = {e.id: e.at for e in events if e.what == "ended"}
        suspects = {e.group for e in events if e.kind == "suspect"}
        attempts, firsts = Counter[str](), dict[str, Event]()
        for event in begun:
            attempts[event.id] = max(attempts[event.id], event.attempt)
            firsts.setdefault(event.id, event)
        innocent = {id for id in firsts if id.startswith("h")}
        healthy = {id: firsts[id] for id in innocent - suspects}
        deaths = [*killed_at, *(e.at for e in begun if e.id.startswith("killer"))]
        self.charged = Counter(attempts[id] - 1 for id in innocent if attempts[id] > 1)
        """How often -> how many."""
        arrived = {id: e.stamp / 1e6 - clock for id, e in healthy.items()}
        nobody = nobodys_time(begun, {e.who: e.at for e in events if e.what == "fault"})
        waits = {
            id: e.at - arrived[id]
            for id, e in healthy.items()
            # What waited for a process, or for the messages that had, says nothing of suspects.
            if not any(a <= arrived[id] <= b + DRAIN_S for a, b in nobody)
        }
        self.calm_p99_s = p99([s for id, s in waits.items() if calm[0] <= arrived[id] < calm[1]])
        self.p99_s = p99([s for id, s in waits.items() if calm[1] <= arrived[id]])
        self.suspects_s = max(ended[id] for id in innocent & suspects) - max(deaths)
        """From the last death on."""
        self.nobody_s = sum(b - a for a, b in nobody)
        self.deaths, self.suspects = len(deaths), len(innocent & suspects)

    def __str__(self) -> str:
        deaths = f"{self.deaths} deaths, nobody for {self.nobody_s:.1f} s"
        suspects = f"{self.suspects} suspects done after {self.suspects_s:.2f} s, charged {dict(self.charged)}"
        return f"{deaths}, {suspects}, p99 {self.calm_p99_s:.3f} s before, {self.p99_s:.3f} s"


def nobodys_time(begun: list[Event], killed: dict[str, float]) -> list[tuple[float, float]]:
    """When no process was there that had begun to work."""
    deaths = killed | {e.who: e.at for e in begun if e.id.startswith("killer")}
    firsts = {e.who: e.at for e in reversed(begun)}
    lives = sorted((at, deaths.get(who, float("inf"))) for who, at in firsts.items())
    until, found = lives[0][0], list[tuple[float, float]]()
    for since, death in lives:
        if since > until:
            found.append((until, since))
        until = max(until, death)
    return found


def p99(waits: list[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)]
