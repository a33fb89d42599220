"""One seed of a simulation, from an empty server to the judged history."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sequencer.client import Sequencer
from sequencer.net.blocking import finish
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.server import EmbeddedServer
from sequencer.settings.backoff import RECONNECT
from sequencer.settings.pace import IDLE_S
from sequencer.store.keys import ShardKeys
from sequencer.store.record import STAMP_DIGITS
from sequencer.testing.wire import Wire, Words, at_time, wired

from ...support.invariants import check_invariants
from ...support.judge.history import Event
from ...support.judge.judgement import Judgement, judge
from .cast import Cast
from .net import Network, Physical, Weather
from .scenario import LONGEST_WAIT_S, NAMESPACE, POLICIES, QUEUE, Scenario, scenario
from .stage import Process, Stage
from .truth import Truth
from .virtual import BEGAN_S, virtual
from .wire import connect_by_wires

GIVE_UP_S = 120.0
"""Virtual seconds after the storm, when a seed is called stuck."""


@dataclass(slots=True)
class Played:
    """What one seed showed."""

    play: Scenario
    judgement: Judgement
    problems: list[str]
    faults: Counter[str]
    trace: list[str] = field(repr=False)
    events: list[Event] = field(repr=False)
    commands: int = 0
    virtual_s: float = 0.0


class Ground:
    """A server of our own, and connections to it that last for many seeds."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="sqsim-"))
        self._server = EmbeddedServer(self._directory)
        self._server.start()
        self.endpoint = Endpoint.from_url(self._server.url)
        self.physical = Physical(self.endpoint)
        self.now_us = 0
        self.probe = Link(wired(self.endpoint, lambda connection: _Probe(self, connection)))
        self.probe.command("CONFIG", "SET", "appendonly", "no")

    def close(self) -> None:
        self.probe.close()
        self.physical.close()
        self._server.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class _Probe(Wire):
    """Looks at the server at the virtual time, without taking any."""

    def __init__(self, ground: Ground, connection: Any) -> None:
        super().__init__(connection)
        self._ground = ground

    def sending(self, commands: list[Words]) -> list[Words]:
        return [at_time(words, self._ground.now_us) for words in commands]


class Simulation:
    """One seed on the stage."""

    def __init__(self, ground: Ground, play: Scenario) -> None:
        self.ground, self.play = ground, play
        ground.probe.command("FLUSHALL")
        self.shards = self._make_queue()
        lease_us, over_us = round(play.lease_s * 1e6), round(play.storm_s * 1e6)
        weather = Weather(play.fault_rate, play.crash_rate, play.pause_rate, lease_us, over_us, play.trip_us)
        self.stage = Stage(play.seed)
        self.truth = Truth(play)
        self.net = Network(self.stage, ground.physical, self.truth, weather)
        connect_by_wires(self.net)
        self.net.are_apart = play.are_apart
        self.cast = Cast(self.stage, self.net, play, self.shards)
        self.problems: list[str] = []

    def _make_queue(self) -> list[ShardKeys]:
        play, ground = self.play, self.ground
        ground.now_us = round(BEGAN_S * 1e6)
        with Sequencer(
            QUEUE, redis=ground.probe.endpoint, namespace=NAMESPACE, shards=play.shards, **POLICIES[play.policy]
        ) as queue:
            queue.connect()
            return finish(queue._session.shards(register=True))

    def run(self) -> Played:
        try:
            self._act()
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")
            self.net.note("root", f"ended by {error!r}")
        finally:
            self.stage.close()
            self.net.close()
        for keys in self.shards:
            stats = iter(self._probe().command("HGETALL", keys.stats))
            self.truth.ledger.check_stats(keys.prefix, {name.decode(): int(next(stats)) for name in stats})
            letters = iter(self._probe().command("HGETALL", keys.dead_letters))
            self.truth.ledger.check_letters(keys.prefix, {letter.decode(): next(letters) for letter in letters})
        self.problems += self.truth.problems
        judgement = judge(self._history(), recover_s=self._recover_s(), remaining=self._remaining())
        self.problems += judgement.cases
        faults = self.net.faults + self.truth.effects + self.truth.ledger.steps.effects
        for event in self.net.events:
            if event.what == "unknown":
                faults["unknown outcome raised"] += 1
        trace = [f"{at / 1e6:12.6f} {who:10} {text}" for at, who, text in self.net.trace]
        return Played(
            self.play,
            judgement,
            self.problems,
            faults,
            trace,
            self.net.events,
            self.net.executed,
            self.stage.now_s,
        )

    def _act(self) -> None:
        stage, play, rng = self.stage, self.play, self.stage.rng
        over_us = self.cast.over_us
        self.cast.start()
        if play.operations:
            self.cast.operate()
        for _ in range(play.flushes):
            stage.after(rng.randrange(over_us), self._flush)
        for step_us in play.steps_us:
            stage.after(rng.randrange(over_us), lambda step_us=step_us: self._step_clock(step_us))  # type: ignore[misc]
        for _ in range(play.audits):
            stage.after(rng.randrange(over_us), self._audit)
        stage.sleep(over_us)
        while self.cast.producing:
            stage.sleep(20_000)
            if stage.now_us > over_us + GIVE_UP_S * 1e6:
                raise AssertionError("producers do not end after the storm")
        self.cast.note("healed")
        client = self.cast.client(Process("operator"))
        if play.redrives:
            self.cast.redrive(client)
        healed_s = stage.now_s
        while stage.now_s - healed_s < self._recover_s() + 1:
            if not self._backlog():
                self.cast.note("drained")
                break
            self.cast.fix(client)
            stage.sleep(100_000)
        self._audit()

    def _recover_s(self) -> float:
        """From the end of all faults until nothing is left: a lease nobody holds, a backoff of the group and of the
        consumers, a gap or window, and a look of idle consumers. Clocks that went back make what is deferred so much
        longer.
        """
        back_s = -sum(step for step in self.play.steps_us if step < 0) / 1e6
        waits_s = self.play.lease_s + self.play.backoff_cap_s + RECONNECT.cap_s + LONGEST_WAIT_S
        return waits_s + 2 * IDLE_S + back_s

    # -- what happens by itself -------------------------------------------------------------------------------

    def _flush(self) -> None:
        connection = self.ground.physical.take()
        self.net.execute(connection, [("SCRIPT", "FLUSH")])
        self.ground.physical.put(connection, is_clean=True)
        self.net.faults["scripts flushed"] += 1
        self.net.note("everybody", "FAULT scripts flushed")

    def _step_clock(self, step_us: int) -> None:
        self.net.offset_us += step_us
        now_us, kind = self.stage.now_us, "clock forward" if step_us > 0 else "clock backward"
        # Leases from before may end at once, while their holders count by clocks of their own.
        self.net.fault(kind, "", now_us, now_us + (self.net.weather.lease_us if step_us > 0 else 0))

    def _audit(self) -> None:
        self.ground.now_us = self.net.server_us()
        self.problems += [
            f"invariants at {self.stage.now_s:.6f}: {text}" for text in check_invariants(self._probe(), self.shards)
        ]

    def _probe(self) -> Link:
        return self.ground.probe

    def _backlog(self) -> int:
        return sum(self._probe().commands([("ZCARD", keys.schedule) for keys in self.shards]))

    # -- the history ------------------------------------------------------------------------------------------

    def _name(self, group: str, message_id: str, stamp: int) -> tuple[str, str]:
        """A message as the judge knows it: where ids are not remembered, each time it was stored is a message."""
        is_one = len(self.truth.stamps[group, message_id]) <= 1
        return group, message_id if is_one else f"{message_id}@{stamp}"

    def _history(self) -> Iterator[Event]:
        asked = {(e.group, e.id): e.score for e in self.net.events if e.what == "appending" and e.score}
        for group, message_id, stamp in self.truth.stored:
            name = self._name(group, message_id, stamp)
            yield Event("appending", 0.0, "server", *name, stamp=stamp, score=asked.get((group, message_id), 0.0))
            yield Event("appended", 0.0, "server", *name, stamp=stamp, kind="stored")
        for event in self.net.events:
            if event.what in ("begun", "ended", "failed"):
                # A run that ends after its message was given up, by a consumer that stood still, is out of its place
                # like one of a redriven message: the group was let pass.
                passed_us = self.truth.passed_us.get((event.group, event.id, event.stamp))
                is_excused = event.redriven or (passed_us is not None and passed_us <= event.at * 1e6)
                name = self._name(event.group, event.id, event.stamp)
                yield event._replace(id=name[1], redriven=is_excused)
            elif event.what not in ("appending", "appended") or len(self.truth.stamps[event.group, event.id]) <= 1:
                yield event

    def _remaining(self) -> list[tuple[str, str]]:
        """Messages that are pending, dead, or were given up by a decision."""
        found = [self._name(*name) for name in self.truth.given_up] + list(self.truth.refused_late)
        for keys in self.shards:
            for letter in self._probe().command("ZRANGE", keys.dead, 0, -1):
                stamp, rest = letter.decode()[:STAMP_DIGITS], letter.decode()[STAMP_DIGITS:]
                group_name, _, message_id = rest.partition("\n")
                found.append(self._name(group_name, message_id, int(stamp)))
            for group in self._probe().command("ZRANGE", keys.schedule, 0, -1):
                for member in self._probe().command("ZRANGE", keys.order(group.decode()), 0, -1):
                    text = member.decode()
                    found.append(self._name(group.decode(), text[STAMP_DIGITS:], int(text[:STAMP_DIGITS])))
        return found


@contextmanager
def stage_set() -> Iterator[Ground]:
    """A server, virtual time, and quiet: warnings of lost leases are what faults are for."""
    log = logging.getLogger("sequencer")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with virtual(), Ground() as ground:
            yield ground
    finally:
        log.setLevel(level)


def play_seed(ground: Ground, seed: int, *, backward: bool = False, steps: bool = False) -> Played:
    """Simulate one seed; see `scenario`."""
    return Simulation(ground, scenario(seed, backward=backward, steps=steps)).run()
