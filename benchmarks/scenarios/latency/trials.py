"""Scenario `latency`: how long it takes from `append` to the begin of the handler, while consumers are idle.

One producer process appends one by one at 100 and at 1,000 messages a second, at random times with that mean (see
`arrivals`), over many groups; one consumer process with a handler that does nothing waits for them. Both read the same
clock (CLOCK_MONOTONIC). Two delays of each message are shown:

    from append   from the moment before the append is called: what the system adds
    from due      from the moment at which the message was to be appended: also what waited for the append before it to
                  return, or for the producer to wake up. A system that holds its producer up can't hide that here

The first `settle_s` of a run are judged but not counted: connections send their scripts in full the first time.
A bare list (RPUSH and BLPOP by redis-py) takes turns with sequencer: what two hops through the server cost here at
least. So does GroupMQ, if scenario `peers` has installed it; its producer does not wait for one append before the next,
and its timers wake up to 1 ms late, which is in `from due` only.

A run counts only if every message was handled once and in the order of its group. A handler that began before its
append is a fault of the clock, and that run is not valid either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...kit.phase import limit_s, wait_drained
from ...kit.rounds import Run, Turn, measured, placed, show, show_valid, wrong_in
from ...load import arrivals
from ...load.arrivals import delays, numbers_of, reached
from ...load.fleet import Fleet, MemberFailed
from ...load.history import read_history
from ...load.member import Role
from ...load.order_check import Handled
from ...load.placement import Placement, client_cpus
from ...load.task import Task, scratch
from ...load.workload import Spread, Workload
from . import bare_list, nodejs

SEQUENCER = "sequencer"
LIST = "a bare list"
MODULES = {SEQUENCER: arrivals.MODULE, LIST: bare_list.MODULE}
SHOWN = ("p50", "p99", "p99.9", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure. Rates in messages a second."""

    rates: tuple[int, ...]
    seconds: float
    settle_s: float
    groups: int
    runs: int
    warmup: int
    placement: Placement = "free"
    cache: str = nodejs.CACHE
    """Where scenario `peers` installs what it compares with."""

    @property
    def systems(self) -> dict[str, int]:
        """What takes turns, with the jobs at once of GroupMQ's worker."""
        peers = {} if self.left_out else {f"groupmq, {count} at once": count for count in nodejs.CONCURRENCIES}
        return {SEQUENCER: 0, LIST: 0, **peers}

    @property
    def left_out(self) -> str:
        """Why GroupMQ is, in words; "" if it is not."""
        return nodejs.missing(Path(self.cache))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "systems": list(self.systems), "groupmq_left_out": self.left_out}


USUAL = Parameters(rates=(100, 1000), seconds=10.0, settle_s=0.5, groups=1000, runs=5, warmup=1)
SMOKE = replace(USUAL, seconds=0.5, settle_s=0.1, groups=20, runs=1, warmup=0)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, rates and systems in turn within each round. Raises ServerError."""
    cases = [(rate, system) for rate in parameters.rates for system in parameters.systems]
    with placed(url, parameters.placement):
        return measured(parameters, cases, lambda case, turn: run_case(url, parameters, *case, turn), on_run)


def run_case(url: str, parameters: Parameters, rate: int, system: str, turn: Turn) -> Run:
    """One run with processes and keys of its own, both gone afterwards. Raises ServerError."""
    workload = Workload(Spread(parameters.groups), max(2, round(rate * parameters.seconds)), 1, turn.seed)
    patience_s, cpus, problem = limit_s(workload.messages) + parameters.seconds, client_cpus(parameters.placement), ""
    is_ours = system == SEQUENCER
    module = MODULES.get(system, nodejs.MODULE)
    numbers = {"rate": rate, "cache": parameters.cache, "concurrency": parameters.systems[system]}
    with scratch(url) as (namespace, directory):
        sent_file, handled_file = directory / "producer.json", directory / "consumer.json"

        def task(role: Role, path: Path) -> Task:
            return Task("sequencer", role, url, namespace, workload, 0, str(path), module, role, numbers)

        try:
            with (
                Fleet([task("produce", sent_file)], cpus) as producers,
                Fleet([task("consume", handled_file)], cpus) as drainers,
            ):
                producers.wait_ready()
                drainers.wait_ready()
                drainers.go()
                producers.go()
                producers.wait(patience_s)
                if is_ours:  # GroupMQ's consumer ends by itself, or some time after the end of its input
                    problem = wait_drained(url, namespace, drainers, patience_s)
                drainers.end()
                drainers.wait(patience_s)
        except MemberFailed as error:
            problem = problem or str(error)
        finally:
            if module == nodejs.MODULE:
                nodejs.forget_keys(url, namespace)
        sent, handled = read_history([sent_file]), read_history([handled_file])
    run = assess(sent, handled, workload, parameters.settle_s, problem)
    return replace(run, case=f"{rate:,}/s", turn=turn, system=system, settings={"rate": rate})


def assess(
    sent: Sequence[Handled], handled: Sequence[Handled], workload: Workload, settle_s: float, problem: str = ""
) -> Run:
    """What the two histories show, as run 1. Pure."""
    found, expected = delays(sent, handled, settle_s), workload.numbers()
    if not problem and numbers_of(sent) != expected:
        problem = f"the producer appended {len(sent)} messages of {len(expected)}, or others"
    if not problem and min(found.from_append, default=0.0) < 0:
        problem = "a handler began before its append: the clocks of the processes differ"
    return Run(
        case="",
        turn=Turn(0, 1, False),
        messages=len(expected),
        problem=wrong_in(expected, handled, problem),
        single={"rate": reached(sent)},
        samples={
            "from append": found.from_append,
            "from due": found.from_due,
            "append": found.append,
            "behind": found.behind,
        },
    )


# -- what came out --------------------------------------------------------------------------------------------


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows of each table."""
    for since, title in (
        ("from append", "Append to handler start in ms: median (min..max) of the runs"),
        ("from due", "Due time to handler start in ms: the same with what held the producer up"),
    ):
        rows = [
            [
                entry["case"],
                entry["system"],
                show_valid(entry),
                *(show(entry["figures"].get(f"{since} {which}")) for which in SHOWN),
            ]
            for entry in summary
        ]
        yield title, ["rate", "system", "valid runs", *SHOWN], rows
