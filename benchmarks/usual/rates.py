"""The cases of `usual` that have a rate, and how each run is judged.

    one each         a backlog of 20,000 groups x 1 message, drained by one consumer whose handlers do nothing
    one by one       messages appended one by one, each of another group, 200 a second, to one idle consumer
    5 ms, 1 group    one consumer, a backlog of one group, handlers that sleep 5 ms
    5 ms, -n N       1,000 groups and N consumers, the same handlers: share of the ideal, which is N handlers that sleep
                     5 ms without a pause, from the start of the first to the end of the last
    long groups      100 groups x 500 messages, drained by one consumer whose handlers do nothing

A rate runs from the start of the first handler to the end of the last. `scripts` are calls of EVALSHA and EVAL by the
server's commandstats, and `server us` its processor time, both a message and of consuming only (in `one by one` of the
appends too). Systems that are slow get fewer messages; each figure says of how many. A run with a message lost,
repeated or invented counts for nothing; so does one with disorder or an overlap within a group where order is promised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..kit.rounds import Run, Turn, in_turn, server_work, turns
from ..load.fleet import MemberFailed
from ..load.judge import FAULTS
from ..load.order_check import check_history
from ..load.placement import Placement
from ..peers.host import Address
from .crew import ORDERED, SYSTEMS, Crew, Happened, Planned, Player, plan

DISORDER = ("order_violations", "overlaps")
QUIET_S = 20.0
"""A system that handles nothing for so long has lost what is left."""
SCRIPTS = ("evalsha", "eval")
SLOWER = {"seed": 4, "celery": 8, "rq": 20}
"""By how much fewer messages a system gets where handlers do nothing; with 5 ms only where it can't keep up."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `messages` is what sequencer gets."""

    name: str
    groups: int
    messages: int
    consumers: int = 1
    work_s: float = 0.0
    pace: float = 0.0

    def messages_for(self, system: str) -> int:
        """Fewer for slow systems, where the rate is the figure."""
        return self.messages if self.work_s or self.pace else max(1, self.messages // SLOWER.get(system, 1))

    def plan(self, system: str, seed: int) -> list[Planned]:
        return plan(self.groups, self.messages_for(system), seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. `pace`: appends a second; `seconds`: of handlers that take 5 ms, and of messages one by one."""

    systems: tuple[str, ...]
    parts: tuple[str, ...]
    cases: tuple[str, ...]
    processes: tuple[int, ...]
    single: int
    groups: int
    long: tuple[int, int]
    pace: float
    seconds: float
    work_s: float
    trials: int
    """How often each promise is tried."""
    cache: Path
    runs: int
    warmup: int
    placement: Placement = "apart"
    claims: tuple[str, ...] = ()
    """Which promises are tried; of none, all."""
    left_out: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "cache": str(self.cache)}

    def chosen(self) -> list[Case]:
        """The cases asked for."""
        each = round(self.seconds / self.work_s)
        busy = [Case("busy", self.groups, each * n, n, self.work_s) for n in self.processes]
        paced = round(self.pace * self.seconds)
        ms = f"{self.work_s * 1e3:g} ms"
        every = {
            "each": [Case("one each", self.single, self.single)],
            "one": [Case("one by one", paced, paced, pace=self.pace)],
            "group": [Case(f"{ms}, 1 group", 1, each, work_s=self.work_s)],
            "busy": [replace(case, name=f"{ms}, -n {case.consumers}") for case in busy],
            "long": [Case("long groups", self.long[0], self.long[0] * self.long[1])],
        }
        return [case for name in self.cases for case in every[name]]


CASES = ("each", "one", "group", "busy", "long")
PARTS = ("rates", "promises")
USUAL = Parameters(
    systems=SYSTEMS,
    parts=PARTS,
    cases=CASES,
    processes=(1, 2, 4, 8),
    single=20_000,
    groups=1_000,
    long=(100, 500),
    pace=200.0,
    seconds=3.0,
    work_s=0.005,
    trials=3,
    cache=Path("bench-results") / "peers",
    runs=5,
    warmup=1,
)
SMOKE = replace(
    USUAL,
    systems=("sequencer", "streams", "seed"),
    processes=(2,),
    single=60,
    groups=10,
    long=(2, 20),
    pace=100.0,
    seconds=0.3,
    trials=1,
    runs=1,
    warmup=0,
)


def measure(address: Address, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, case by case, the systems in turn within each round. Raises ServerError."""
    runs = []
    for turn in turns(parameters.warmup, parameters.runs):
        for case in parameters.chosen():
            for system in in_turn(parameters.systems, turn):
                run = run_case(address, parameters, case, system, turn)
                on_run(run)
                runs.append(run)
    return runs


def run_case(address: Address, parameters: Parameters, case: Case, system: str, turn: Turn) -> Run:
    """One run with processes of its own on an emptied server. Raises ServerError."""
    messages, problem = case.plan(system, turn.seed), ""
    happened, single, appended = Happened([], [], []), dict[str, float](), list[list[Any]]()
    with Crew(address, parameters.cache, system, parameters.placement) as crew:
        more = {"work_s": case.work_s, "setting": {"consumers": case.consumers}}
        try:
            producer = crew.producer(messages, batch=not case.pace, pace=case.pace)
            consumers = [crew.consumer(**more) for _ in range(case.consumers)]
            before = server_work(address.url)
            if case.pace:
                stream(crew, producer, consumers)
            else:
                crew.start(producer)
                producer.wait(QUIET_S + len(messages) / 100)
                before = server_work(address.url)
                crew.start(*consumers)
            if not crew.wait_handled(len(messages), QUIET_S + len(messages) / 100, QUIET_S):
                problem = "not all messages were handled"
            work = server_work(address.url).since(before)
            single = {
                "server us": work.cpu_s * 1e6 / len(messages),
                "scripts": sum(work.calls.get(name, 0) for name in SCRIPTS) / len(messages),
            }
            appended = producer.events()
            happened = crew.end()
        except MemberFailed as error:
            problem = problem or str(error)
    run = assess(case, system, messages, happened, appended, problem)
    return replace(run, turn=turn, single={} if run.problem else {**run.single, **single})


def stream(crew: Crew, producer: Player, consumers: list[Player]) -> None:
    """Consumers first. What they do once, when they start, falls on the first messages, which don't count."""
    crew.start(*consumers)
    crew.start(producer)
    producer.wait(QUIET_S * 5)


def assess(
    case: Case, system: str, messages: list[Planned], happened: Happened, appended: list[list[Any]], problem: str = ""
) -> Run:
    """What the journals show, as run 1. Pure."""
    handled = happened.handled
    numbers = {(one.group, one.id): one.number for one in messages}
    known = [record._replace(stamp=numbers.get((record.group, record.id), 0)) for record in handled]
    verdict = check_history(numbers, known)
    forbidden = FAULTS if system in ORDERED else tuple(name for name in FAULTS if name not in DISORDER)
    counts = [f"{count} {name.replace('_', ' ')}" for name in forbidden if (count := getattr(verdict, name))]
    samples: dict[str, list[float]] = {}
    single: dict[str, float] = {}
    if handled:
        span_s = max(record.ended for record in handled) - min(record.started for record in handled)
        if span_s > 0 and not case.pace:
            single["rate"] = len(handled) / span_s
        if span_s > 0 and case.work_s:
            single["of ideal"] = len(handled) * case.work_s / case.consumers / span_s
    if case.pace:
        sent = {(event[1], event[2]): event[3] for event in appended}
        counted = sorted(sent, key=lambda name: sent[name])[len(sent) // 4 :]
        at = {(record.group, record.id): record.started for record in handled}
        samples["delay ms"] = [(at[name] - sent[name]) * 1e3 for name in counted if name in at]
    if system not in ORDERED:
        single["disorder"] = float(verdict.order_violations + verdict.overlaps)
    return Run(
        case=case.name,
        turn=Turn(0, 1, False),
        messages=len(messages),
        problem="; ".join([*([problem] if problem else []), *counts]),
        single=single,
        samples=samples,
        settings={"consumers": case.consumers, "groups": case.groups, "messages": len(messages)},
        system=system,
    )
