"""Crash at every step: real processes are killed, stopped for two leases, or lose a request or a reply, at each named
point of their work and at each passage of it; then others finish the work, and the history is judged.

The n-th passage of a point, for n = 1, 2, 3 ... until a run ends without reaching it. A fault counts when it took
effect: the parent saw the process die of SIGKILL, or stop; or the connection was closed under the call.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any, get_args

from sequencer.errors import ConfigurationError
from sequencer.server import EmbeddedServer

from ..report import Result, Scale, totals
from .plan import Chain, every_chain, mismatch, named_points, slice_of, some
from .points import KINDS, Case, Kind, kinds_at
from .trial import Trial
from .verdict import Outcome
from .work import VARIANTS

PARALLEL = 2
SMOKE_CASES = 6
MOST_PASSAGES = 100
"""A point that is still reached then is in a loop of its own."""
END_S = 10.0
"""How long a worker that was told to end may take for it."""
ATTEMPTS = 3
"""How often a case is tried that a pause of the machine disturbed, or whose first passage did not come."""


def run(
    scale: Scale,
    *,
    seed: int | None = None,
    seconds: float | None = None,
    point: str | None = None,
    passage: int | None = None,
    kind: str | None = None,
    variant: str | None = None,
) -> Result:
    """Run the cases of this scale, or those of one `point`, `passage`, `kind` and `variant`.

    `seconds`: when to stop beginning cases beyond the first passage of each point. Raises ConfigurationError for a
    point or kind that does not exist, ServerNotUsable without a server to start.
    """
    began = time.monotonic()
    seed = (int.from_bytes(os.urandom(4)) if scale == "nightly" else 1) if seed is None else seed
    single = chosen(point, passage, kind, variant)
    directory, others = Path(tempfile.mkdtemp(prefix="sqc-")), active_children()
    try:
        with EmbeddedServer(directory / "server") as server, _pool() as pool:
            runner = Runner(pool, server.url, directory)
            try:
                runner.run(scale, seed, seconds, single)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                workers = [worker for worker in active_children() if worker not in others]
                for worker in workers:
                    worker.terminate()  # it ends its trial, with all processes of that
                for worker in workers:  # a pool that was told not to wait does not: files would come behind our back
                    worker.join(END_S)
                raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    limit = "" if seconds is None else f" --seconds {seconds:g}"
    command = f"python -m tests.faults crash --scale {scale} --seed {seed}{limit}"
    if single:
        given = {"point": point, "passage": passage, "kind": kind and f"'{kind}'", "variant": variant}
        words = " ".join(f"--{name} {value}" for name, value in given.items() if value is not None)
        command, seed = f"python -m tests.faults crash {words}{limit}", None
    seeds = "" if seed is None else str(seed)
    return replace(runner.result(command), seeds=seeds, seconds=time.monotonic() - began)


def chosen(point: str | None, passage: int | None, kind: str | None, variant: str | None) -> list[Chain]:
    """The chains that were asked for by name; none when nothing was. Raises ConfigurationError."""
    if not (point or passage or kind or variant):
        return []
    known = [chain for chain in every_chain() if (point or chain.point) == chain.point]
    if not known:
        raise ConfigurationError(f"no point {point!r}; there are: {', '.join(named_points('default'))}, ...")
    if kind and kind not in get_args(Kind):
        raise ConfigurationError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
    if kind and point and kind not in kinds_at(point):
        raise ConfigurationError(f"at {point} there can be: {', '.join(kinds_at(point))}")
    fitting = [c for c in known if (kind or c.kind) == c.kind and (variant or c.variant) == c.variant]
    if not fitting:
        raise ConfigurationError("no case is of this point, kind and variant together")
    return [c._replace(first=passage or 1, last=passage) for c in fitting]


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(PARALLEL, mp_context=get_context("spawn"), initializer=_listen)


_is_ended = False
"""Of a process of the pool: whether it was told to end."""


def _listen() -> None:
    """In a process of the pool: Ctrl-C is for its parent, which tells it by SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)


def _end(*_: Any) -> None:
    global _is_ended
    is_first, _is_ended = not _is_ended, True
    if is_first:
        sys.exit(128 + signal.SIGTERM)


def run_case(url: str, directory: Path, variant: str, case: Case | None) -> Outcome:
    """A trial; again where the machine stood still longer than a lease, or did not come to a first passage."""
    number, discarded = 0, list[str]()
    while True:
        place = directory / f"{variant}-{os.getpid()}-{time.monotonic_ns()}"
        place.mkdir(parents=True)
        outcome = Trial(url, place, variant, case).run()
        shutil.rmtree(place, ignore_errors=True)
        is_missed = case is not None and case.passage == 1 and not outcome.is_reached and not outcome.problems
        if not (outcome.is_disturbed or is_missed) or number + 1 == ATTEMPTS:
            return replace(outcome, repeated=number, discarded=tuple(discarded))
        discarded += outcome.problems
        number += 1


def discover(url: str, directory: Path, variant: str) -> Outcome:
    """The work without a fault; again where a busy machine left nothing to wait for, say, and so a point was missed."""
    for _ in range(ATTEMPTS):
        outcome = run_case(url, directory, variant, None)
        if not mismatch(variant, outcome.passages):
            break
    return outcome


def run_chain(url: str, directory: Path, chain: Chain, until: float) -> list[Outcome]:
    """The cases of a chain, the last of which was not reached, or is the last that was asked for."""
    if _is_ended:
        sys.exit(128 + signal.SIGTERM)
    outcomes: list[Outcome] = []
    for number in range(chain.first, (chain.last or MOST_PASSAGES) + 1):
        if outcomes and time.monotonic() > until:
            break
        outcomes.append(run_case(url, directory, chain.variant, chain.case(number)))
        if not outcomes[-1].is_reached:
            break
    else:
        if chain.last is None:
            endless = (*outcomes[-1].problems, f"{chain.point} is still reached at passage {MOST_PASSAGES}")
            outcomes[-1] = replace(outcomes[-1], problems=endless)
    return outcomes


class Runner:
    """Runs chains in a few processes, and gathers what they show."""

    def __init__(self, pool: ProcessPoolExecutor, url: str, directory: Path) -> None:
        self._pool, self._url, self._directory = pool, url, directory
        self.outcomes: list[Outcome] = []
        self.problems: list[str] = []
        self.passages: dict[str, dict[str, int]] = {}
        self._complete = 0

    def run(self, scale: Scale, seed: int, seconds: float | None, single: list[Chain]) -> None:
        """All chains of a scale, or these."""
        until = float("inf") if seconds is None else time.monotonic() + seconds
        if not single:
            self.discover()
        chains = single or (every_chain() if scale == "nightly" else slice_of(seed))
        self._take(some(chains, SMOKE_CASES) if scale == "smoke" and not single else chains, until)

    def discover(self) -> None:
        """Pass all points without a fault, and compare them with the list."""
        futures = {v: self._pool.submit(discover, self._url, self._directory, v) for v in VARIANTS}
        for variant, future in futures.items():
            outcome = future.result()
            self.passages[variant] = outcome.passages
            self.problems += [f"{variant}, without a fault: {problem}" for problem in outcome.problems]
            self.problems += mismatch(variant, outcome.passages)

    def _take(self, chains: Iterable[Chain], until: float) -> None:
        futures = [self._pool.submit(run_chain, self._url, self._directory, chain, until) for chain in chains]
        for future in futures:
            self.add(future.result())

    def add(self, outcomes: list[Outcome]) -> None:
        """Take in a chain."""
        self.outcomes += outcomes
        self._complete += bool(outcomes) and not outcomes[-1].is_reached
        for outcome in outcomes:
            assert outcome.case is not None
            self.problems += [f"{problem}; {outcome.case.command}" for problem in outcome.problems]
            if not outcome.is_reached and (outcome.case.passage == 1 or len(outcomes) == 1):
                self.problems.append(f"{outcome.case.point} was never reached; {outcome.case.command}")

    def result(self, command: str) -> Result:
        """What all of it shows."""
        reached = [outcome for outcome in self.outcomes if outcome.is_reached and outcome.case]
        return Result(
            name="crash",
            command=command,
            runs=len(reached),
            unit="points passed with a fault",
            faults=dict(Counter(outcome.case.kind for outcome in reached if outcome.case)),
            figures=self._figures(reached),
            problems=tuple(self.problems),
            **totals(outcome.judged for outcome in self.outcomes),
        )

    def _figures(self, reached: list[Outcome]) -> dict[str, object]:
        most: defaultdict[str, int] = defaultdict(int)
        for outcome in reached:
            if outcome.case:
                most[outcome.case.point] = max(most[outcome.case.point], outcome.case.passage)
        named = {point for variant in VARIANTS for point in named_points(variant)}
        return {
            "points": f"{len(most)} of {len(named)}",
            "highest passage by point": dict(sorted(most.items())),
            "points followed until they were not reached": self._complete,
            "leases of victims that expired and were taken over": sum(o.is_expired for o in reached),
            "stale tokens refused": sum(o.is_refused for o in reached),
            "trials repeated because the machine stood still": sum(o.repeated for o in self.outcomes),
            "problems in those, not counted": [text for o in self.outcomes for text in o.discarded] or 0,
        }
