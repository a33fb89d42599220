"""Scenario `pools`: what `sequencer run` and its alerts cost the consumers of a queue.

A backlog over many groups, and handlers that sleep, so that the rate is that of the consumers. The same queue is
drained by real commands, in turns:

    consume   `sequencer consume`
    run       `sequencer run` of a file with this queue alone
    beside    the same file with two more queues: of one each message ends the consumer's process, and of the other each
              handler hangs, whatever interrupts it, past the time after which it is killed
    no target `sequencer run` with alerts that are open all the time, and nobody to tell
    500       the same with four targets, which answer each request with 500
    hangs     the same with four targets, which never answer

    rate      messages a second in the steady part: from the moment at which each consumer has begun, to when fewer
              groups than consumers have a message that was not begun
    requests  what came to the targets until its end

A run counts only if every message was handled once and in order, and each consumer handled some.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sequencer.client import Sequencer

from ..kit.hook import Hook
from ..kit.phase import POLL_S, limit_s, wait_drained
from ..kit.report import show_range
from ..kit.rounds import Run, Turn, measured, placed, show, show_valid, wrong_in
from ..kit.rounds import summarise as summarise_runs
from ..kit.scenario import Scenario
from ..load.fleet import READY_S, Fleet, MemberFailed
from ..load.history import read_history
from ..load.member import QUEUE
from ..load.order_check import Handled
from ..load.placement import Placement, client_cpus, place
from ..load.task import scratch
from ..load.workload import Planned

Case = Literal["consume", "run", "beside", "no target", "500", "hangs"]
BASES: dict[Case, Case | None] = {
    "consume": None,
    "run": "consume",
    "beside": "run",
    "no target": "run",
    "500": "no target",
    "hangs": "no target",
}
"""Each case, and the one that its rate is set in relation to."""
COMMAND = [sys.executable, "-P", "-c", "import sequencer_start; sequencer_start.main()"]
APP = "benchmarks.load.sleeper"
TARGETS = 4
DYING, IDLE = ("dying", "hanging"), ("later", "tomorrow", "someday")
STARTS_S = 2.0
"""Consumers begin within about this time of one another; the backlog is larger by so much."""
END_S, STOP_S = 30.0, 1.0
"""So long consumers have to write down what they handled; and so long each harder stop has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure; `seconds`: the steady part, if all handlers are busy."""

    cases: tuple[Case, ...]
    work_s: float
    groups: int
    consumers: int
    seconds: float
    runs: int
    warmup: int
    placement: Placement = "free"

    @property
    def messages(self) -> int:
        return max(self.groups, round((self.seconds + STARTS_S) / self.work_s * self.consumers))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


USUAL = Parameters(cases=tuple(BASES), work_s=0.005, groups=100, consumers=4, seconds=3.0, runs=3, warmup=0)
SMOKE = replace(USUAL, cases=("consume", "beside", "hangs"), groups=5, consumers=1, seconds=-1.5, runs=1)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the cases in turn within each round. Raises ServerError."""
    with placed(url, parameters.placement):
        return measured(parameters, parameters.cases, lambda case, _turn: run_case(url, parameters, case), on_run)


def run_case(url: str, parameters: Parameters, case: Case) -> Run:
    """One run with processes and keys of its own, both gone afterwards. Raises ServerError."""
    groups, messages, problem = parameters.groups, parameters.messages, ""
    plan = [Planned(f"g{number % groups}", f"m{number}", number + 1) for number in range(messages)]
    with scratch(url) as (namespace, directory), Hook(hangs=case == "hangs") as hook:
        with Sequencer(QUEUE, url, namespace=namespace) as queue:
            queue.pause()
            more = {"work_s": parameters.work_s, "directory": str(directory)}
            queue.append_many({"group": [one.group], "id": one.id, "body": {**one.body(), **more}} for one in plan)
            _fill_others(url, namespace, case)
            try:
                with running(_words(case, parameters, directory, hook), url, namespace, directory, parameters):
                    if case in ("500", "hangs"):
                        hook.wait(READY_S)
                    queue.unpause()
                    problem = wait_drained(url, namespace, Fleet([]), limit_s(messages) + 2 * parameters.seconds)
            except MemberFailed as error:
                problem = problem or str(error)
        handled = read_history(histories(directory))
    run = assess(handled, plan, parameters.consumers, hook.times, problem)
    return replace(run, case=case, settings={"base": BASES[case]})


def _fill_others(url: str, namespace: str, case: Case) -> None:
    """The queues beside it: two that make trouble, or some of whose backlog somebody is told."""
    for name in DYING if case == "beside" else IDLE:
        with Sequencer(name, url, namespace=namespace) as queue:
            delay = None if case == "beside" else 3600.0
            queue.append_many({"group": [str(number)], "body": {}, "delay": delay} for number in range(100))


def _words(case: Case, parameters: Parameters, directory: Path, hook: Hook) -> list[str]:
    """The command of a case; it may write a file."""
    n = parameters.consumers
    if case == "consume":
        return ["consume", QUEUE, "--app", f"{APP}:handle", "-n", str(n)]
    lines = ["check_every = '200ms'", f"[queues.{QUEUE}]", f"app = '{APP}:handle'", f"n = {n}"]
    if case == "beside":
        lines += ["[queues.dying]", f"app = '{APP}:die'"]
        lines += ["[queues.hanging]", f"app = '{APP}:hang'", "lease = '1s'", "max_age = '1s'", "hang_after = '1s'"]
    elif case != "run":
        lines += [line for name in IDLE for line in (f"[queues.{name}]", "exec = 'true'", "n = 0")]
        lines += ["[alerts]", "backlog = 1", "wait = '1ms'"]
    if case in ("500", "hangs"):
        for number in range(TARGETS):
            lines += [f"[targets.t{number}]", "type = 'webhook'", f"url = '{hook.url}'"]
    (directory / "sequencer.toml").write_text("\n".join(lines) + "\n")
    return ["run"]


@contextmanager
def running(words: list[str], url: str, namespace: str, directory: Path, parameters: Parameters) -> Iterator[None]:
    """The command; at the end it is told to stop, up to three times. Raises MemberFailed."""
    own = {"SEQUENCER_REDIS": url, "SEQUENCER_NAMESPACE": namespace, "SEQUENCER_HOME": str(directory)}
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=directory,
        env=os.environ | own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        place(process.pid, client_cpus(parameters.placement))
        yield
        if process.poll() is not None:
            raise MemberFailed(f"{words[0]} ended with status {process.returncode} before it was told to")
    finally:
        process.send_signal(signal.SIGTERM)
        until = time.monotonic() + END_S
        while process.poll() is None and len(histories(directory)) < parameters.consumers and time.monotonic() < until:
            time.sleep(POLL_S)
        for _ in range(10):  # each stop is a harder one, for handlers that hang
            try:
                process.wait(STOP_S)
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
        else:
            process.kill()
            process.wait()


def histories(directory: Path) -> list[Path]:
    """What consumers leave as they end."""
    return sorted(directory.glob("consumer-*.json"))


def assess(
    handled: Sequence[Handled], messages: Sequence[Planned], consumers: int, asked: Sequence[float], problem: str = ""
) -> Run:
    """What the history shows, as run 1; `asked`: when requests came to the targets. Pure."""
    begins: dict[str, float] = {}
    for record in handled:
        begins[record.consumer] = min(record.started, begins.get(record.consumer, record.started))
    last, single = {message.group: message.id for message in messages}, dict[str, float]()
    used_up = sorted(record.started for record in handled if last[record.group] == record.id)
    begin, end = max(begins.values(), default=0.0), used_up[-consumers] if len(used_up) >= consumers else 0.0
    if len(begins) < consumers:
        problem = problem or f"{len(begins)} of {consumers} consumers handled messages"
    elif end <= begin:
        problem = problem or "there was no steady part"
    else:
        single["rate"] = sum(begin < record.ended <= end for record in handled) / (end - begin)
        single["requests"] = float(sum(at <= end for at in asked))
    numbers = {(one.group, one.id): one.number for one in messages}
    return Run(
        case="",
        turn=Turn(0, 1, False),
        messages=len(messages),
        problem=wrong_in(numbers, handled, problem),
        single=single,
    )


# -- what came out --------------------------------------------------------------------------------------------


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """Each case, in relation to its base in the same round."""
    return summarise_runs(runs, lambda run: run.settings["base"])


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows."""
    rows = [
        [
            entry["case"],
            show_valid(entry),
            show_range(entry["figures"].get("rate")),
            entry["base"] or "-",
            show(entry["of_base"].get("rate"), 3),
            show(entry["figures"].get("requests"), 0),
        ]
        for entry in summary
    ]
    columns = ["case", "valid runs", "messages/s", "beside", "ratio, same round", "requests"]
    yield "Rate of one queue's consumers: median (min..max)", columns, rows


SCENARIO = Scenario("pools", USUAL, SMOKE, measure, summarise, tables)


@SCENARIO.command
def command(usual: Parameters) -> Parameters:
    """What `sequencer run`, queues that die and hang, and targets that are dead cost a queue's consumers."""
    return usual
