"""What a trial showed: its history, judged with the fault as its explanation, and whether the fault was real."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...support.judge.history import Event, read_events
from ...support.judge.judgement import Judgement, judge
from .child import Child, read_counts
from .points import Case
from .work import LEASE_S, REMOVED

WORK_S, SLACK_S = 0.8, 2.0
"""Handlers, backoffs, gaps and timers of the work; and what a busy machine may take to start processes."""
RECOVER_S = LEASE_S + WORK_S + SLACK_S
EXPIRED = re.compile(r"lease expired: group=.* owner=[^:]*:(\d+):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial showed."""

    case: Case | None
    variant: str
    is_reached: bool
    """Whether the fault took effect."""
    problems: tuple[str, ...]
    passages: dict[str, int]
    judged: Judgement
    is_refused: bool = False
    """Whether a stale token was refused."""
    is_expired: bool = False
    """Whether a lease of the victim's expired, and was taken over."""
    is_disturbed: bool = False
    """Whether a process without a fault lost a lease: the machine stood still for longer than that."""
    discarded: tuple[str, ...] = ()
    """Problems of attempts that were disturbed, and repeated."""
    repeated: int = 0
    """How often it was retried for that, or for a point that was not reached."""


def events_of(directory: Path) -> list[Event]:
    """What all processes of a trial recorded."""
    return read_events(sorted(directory.glob("*.ndjson")))


def outcome_of(
    case: Case | None,
    variant: str,
    children: Iterable[Child],
    victim: Child | None,
    problems: Iterable[str],
    drained_at: float,
) -> Outcome:
    """Judge the history of a trial; `problems` are those known already, `drained_at` when the others were done."""
    some = list(children)
    events, found = events_of(some[0].directory), list(problems)
    fault = next((event for event in events if event.what == "fault"), None)
    if fault and victim and case:
        found += dishonesty(case, victim)
        touched = fault._replace(until=victim.healed_at)
        events = _without_reset([touched if event is fault else event for event in events], victim)
        events += [Event("healed", fault.at), Event("drained", drained_at or time.monotonic())]
    expected = [case.kind] if case and fault else []
    verdict = judge(events, remaining=REMOVED, recover_s=RECOVER_S if fault else None, expected=expected)
    done = {event.id for event in events if event.what == "ended"} & {name for _, name in REMOVED}
    found += [f"{name} was removed, and handled" for name in sorted(done)]
    victim = victim if fault else None
    owners = {int(pid) for child in some for pid in EXPIRED.findall(child.said)}
    lost = [child for child in some if child is not victim and "lease lost" in child.said]
    return Outcome(
        case=case,
        variant=variant,
        is_reached=fault is not None,
        problems=(*found, *verdict.cases),
        passages=_passages(some),
        judged=verdict,
        is_refused=victim is not None and "lease lost" in victim.said,
        is_expired=victim is not None and victim.pid in owners,
        is_disturbed=bool(lost or owners - {victim.pid if victim else 0}),
    )


def _passages(children: Iterable[Child]) -> dict[str, int]:
    """How often one process passed each point at most."""
    passages: dict[str, int] = {}
    for child in children:
        for point, count in read_counts(child.directory / f"{child.name}.json").items():
            passages[point] = max(passages.get(point, 0), count)
    return passages


def dishonesty(case: Case, victim: Child) -> list[str]:
    """Where the process says that it met its fault, and its parent saw something else."""
    said = f"{victim.name} says that it met {case.kind!r} at {case.point}"
    if case.kind == "kill" and victim.signal != signal.SIGKILL:
        return [f"{said}, and ended with wait status {victim.status}"]
    if case.kind == "stop" and victim.stopped_at is None:
        return [f"{said}, and was never seen to stop"]
    return []


def _without_reset(events: list[Event], victim: Child) -> list[Event]:
    """The events without the second firing of a timer that the victim set again after its stop: that one is due."""
    if victim is None or not victim.healed_at:
        return events
    sets = [
        e.at for e in events if e.who == victim.who and e.id == "e-2" and e.what == "appended" and e.kind == "stored"
    ]
    since = next((at for at in sets if at > victim.healed_at), float("inf"))
    return [e for e in events if not (e.id == "e-2" and e.what in ("begun", "ended") and e.at > since)]
