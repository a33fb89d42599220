"""One chaos run: a real server, a proxy, producers, consumers and an operator as processes; then what is wrong with it.

The nemesis acts for so many seconds; then everything is healed, drained and judged. The server itself stays well.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sequencer.client import Sequencer
from sequencer.errors import SequencerError
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.server import EmbeddedServer
from sequencer.store.keys import shard_keys

from ...support.invariants import check_invariants
from ...support.judge.history import read_events
from ...support.judge.judgement import Judgement, judge
from ..strays import end_strays
from .children import END_S, Child, Paused, send
from .nemesis import EXPECTED, FIRST_ACTS, Act, acts, again
from .setting import QUEUE, Setting

ROLES = ("producer", "producer", "producer", "consumers", "looper", "operator")
"""The processes beside the proxy; the consumers are three, and their supervisor."""
START_S = 20.0
SLACK_S = 6.0
"""Beside lease and backoff: a consumer looks for a lost server every 5 s at the latest, and so does the supervisor."""
ACK_S = 0.25
"""How long after its end a run may be unacknowledged: 10 ms of running time, and a dozen processes on a few cores."""
PACE_S = (0.05, 0.4)
CHECK_S = 0.02
CATCH_UP_S = 15.0

UNFORESEEN = re.compile(r"^(?!.*(?:group parked|dead letter|message dropped): ).*\nTraceback", re.MULTILINE)
"""A traceback in a log, but those of handlers that fail as they should."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run showed. `problems` is empty when all was as promised."""

    judgement: Judgement
    problems: list[str]


def run_seed(
    seed: int,
    seconds: float,
    *,
    policy: str = "default",
    mutant: str = "",
    plan: Iterable[Act] | None = None,
    expected: Collection[str] = EXPECTED,
    roles: Sequence[str] = ROLES,
) -> Outcome:
    """One run of about `seconds` and the time to recover.

    `plan`: what to do, in place of what the seed says. `expected`: the kinds that must take effect; those that have
    not when the time is over are retried for a while. `roles`: the processes to start. Raises SequencerError when
    nothing can be started.
    """
    home = Path(tempfile.mkdtemp(prefix="sqch-"))
    setting = Setting(home=str(home), seed=seed, policy=policy, mutant=mutant)
    try:
        with EmbeddedServer(home) as server:
            run = _Run(setting, server.url, roles)
            try:
                run.go(seconds, iter(acts(seed, setting.lease_s) if plan is None else plan))
                if plan is None:
                    run.catch_up(expected)
                run.heal()
                problems = run.problems()
            finally:
                left = run.end()
            problems += left
        outcome = _judged(setting, problems, expected)
    except BaseException:
        shutil.rmtree(home)
        raise
    if mutant or not outcome.problems:
        shutil.rmtree(home)
        return outcome
    return replace(outcome, problems=[*outcome.problems, f"the histories are kept in {home}"])


def _judged(setting: Setting, problems: list[str], expected: Collection[str]) -> Outcome:
    home = Path(setting.home)
    events = read_events(home.glob("*.events"))
    problems += sorted({event.kind for event in events if event.what == "seen" and event.kind.startswith("broken")})
    for log in sorted(home.glob("*.log")):
        text = log.read_text(encoding="utf-8", errors="replace")
        found = UNFORESEEN.search(f"\n{text}")
        if found and log.name != "server.log":
            problems.append(f"{log.name}: {text[found.start() : found.start() + 3000]}")
    judgement = judge(events, ack_s=ACK_S, recover_s=setting.lease_s + 0.5 + SLACK_S, expected=expected)
    return Outcome(judgement, [*judgement.cases, *problems])


class _Run:
    def __init__(self, setting: Setting, server: str, roles: Sequence[str]) -> None:
        self._setting, self._server = setting, server
        self._events = setting.recorder("nemesis")
        self._paused = Paused(self._events, setting.mark)
        self._direct = replace(setting, timeout_s=5.0).sequencer(server)
        self._direct.connect()
        self._link = Link(Endpoint.from_url(server))
        self._expired = 0
        self._proxy = Child(setting, "proxy", server)
        until = time.monotonic() + START_S
        while not setting.proxy_path.exists() and time.monotonic() < until:
            time.sleep(CHECK_S)
        self._children = [Child(setting, role) for role in roles]

    def go(self, seconds: float, plan: Iterator[Act]) -> None:
        """Wait until messages are handled, and act."""
        self._wait_for_work()
        draw = random.Random(self._setting.seed)
        shortest, longest = PACE_S
        longest = min(longest, 2 * (seconds * 0.85 / FIRST_ACTS) - shortest)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if act := next(plan, None):
                self._do(act)
            next_at = time.monotonic() + draw.uniform(shortest, max(shortest, longest))
            while time.monotonic() < min(next_at, until):
                self._tend()
                time.sleep(CHECK_S)

    def catch_up(self, expected: Collection[str]) -> None:
        """Attempt again what has not taken effect: it met nothing, or whom it met was killed before that could say
        so.
        """
        until = time.monotonic() + CATCH_UP_S
        while time.monotonic() < until:
            self._note_expired()
            effects = judge(read_events(Path(self._setting.home).glob("*.events"))).effects
            missing = [kind for kind in expected if not effects.get(kind)]
            if not missing:
                return
            for kind in missing:
                self._do(again(kind, self._setting.lease_s))
            next_at = time.monotonic() + self._setting.lease_s / 2
            while time.monotonic() < next_at:
                self._tend()
                time.sleep(CHECK_S)

    def _note_expired(self) -> None:
        """Record the leases that the server found expired since the last look."""
        total = self._direct.info().totals.get("expired", 0)
        for _ in range(total - self._expired):
            self._events.note("seen", kind="lease expired")
        self._expired = total

    def _wait_for_work(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until and not self._direct.info().totals.get("handled"):
            time.sleep(CHECK_S)

    def _do(self, act: Act) -> None:
        if act.deed == "proxy":
            self._proxy.ask(**act.order)
        elif act.deed == "flush scripts":
            self._link.command("SCRIPT", "FLUSH")
            self._events.note("seen", kind="scripts flushed")
        elif act.deed == "kill supervisor":
            # Its consumers see that, finish what they have in progress and end.
            (child,) = [child for child in self._children if child.role == "consumers"]
            send_to = child.pid
            self._paused.go_on(everything=True)
            child.signal(signal.SIGKILL)
            self._events.note("seen", kind="supervisor killed", who=str(send_to))
        else:
            candidates = [child for child in self._children if child.role == act.whom]
            child = candidates[act.which % len(candidates)]
            if act.deed == "pause":
                self._paused.add(child, act.which, 2.1 * self._setting.lease_s)
                return
            before = time.monotonic()  # as seen from here it dies between this and the answer
            if pid := send(child, signal.SIGKILL, act.which):
                self._events.note("fault", at=before, until=time.monotonic(), who=str(pid), kind="process killed")

    def _tend(self) -> None:
        """Continue what was paused for long enough, and replace what is dead."""
        self._paused.go_on()
        for number, child in enumerate(self._children):
            if not child.is_running:
                child.end()
                self._children[number] = Child(self._setting, child.role)

    def heal(self) -> None:
        """End the faults, and wait until nothing is left to do."""
        self._proxy.ask(clear=True)
        self._paused.go_on(everything=True)
        self._tend()
        until = time.monotonic() + START_S
        while self._proxy.ask() and time.monotonic() < until:
            time.sleep(CHECK_S)
        self._setting.heal()
        self._events.note("healed")
        self._drain()

    def _drain(self) -> None:
        """Let producers and operator end, let everything go that is held, and wait until nothing is left."""
        until = time.monotonic() + START_S
        for child in self._children:
            if child.role in ("producer", "operator"):
                child.wait(until - time.monotonic())
        while time.monotonic() < until:
            with_messages = _let_go(self._direct)
            if not with_messages:
                self._events.note("drained")
                return
            for number, child in enumerate(self._children):
                if child.role in ("consumers", "looper") and not child.is_running:
                    child.end()
                    self._children[number] = Child(self._setting, child.role)
            time.sleep(CHECK_S)

    def problems(self) -> list[str]:
        """What the check of invariants and doctor find at the end."""
        shards = [shard_keys("sequencer", QUEUE, shard) for shard in range(self._direct.info().shards)]
        found = [f"at the end: {text}" for text in check_invariants(self._link, shards)]
        self._note_expired()
        found += [f"doctor: {one.check}: {one.text}" for one in self._direct.doctor() if one.level == "problem"]
        return found + [f"left: {info}" for info in self._direct.groups(limit=3)]

    def end(self) -> list[str]:
        """End all processes; what did not end when it should."""
        self._paused.go_on(everything=True)
        found = [f"{one.role} did not end" for one in [*self._children, self._proxy] if not one.end()]
        self._link.close()
        self._direct.close()
        if outlived := end_strays(self._setting.mark, END_S):
            found.append(f"{outlived} consumers outlived their supervisor")
        return found


def _let_go(seq: Sequencer) -> bool:
    """Unpause, resume and redrive everything; whether messages are left."""
    seq.unpause()
    for group in seq.paused_groups():
        seq.unpause(group)
    try:
        for info in seq.parked():
            seq.resume(info.group)
        if seq.count_dead():
            seq.redrive(everything=True)
    except SequencerError:
        return True  # a consumer was quicker: look again
    left = seq.info()
    return bool(left.backlog or left.dead)
