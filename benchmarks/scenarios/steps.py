"""Scenario `steps`: what the steps of a message cost, beside a handler that makes as many round trips itself.

A backlog of 100 groups is there before; one consumer in this process drains it, with handlers that do nothing.

    plain        a handler that returns at once
    two calls    a handler that sends two PINGs over a connection of its own, one after the other
    1 step       one automatic step
    3 steps      three automatic steps: two notes are waited for
    once         one `once` step: its start and its end are waited for
    history      a plain handler, in a queue that keeps a history

And what one note takes of the server, beside a script that does nothing, with bodies of 200 bytes to 1 MB: the note
writes the whole record. A run with a message that was not handled exactly once counts for nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sequencer.calls import claim
from sequencer.calls.settle import SaveStep, save_step
from sequencer.client import Sequencer
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link
from sequencer.settings.options import ClaimLimits
from sequencer.store.keys import shard_keys
from sequencer.store.ledger import Entry, Ledger, Written, encode_ledger

from ..kit.rounds import Run, Turn, measured, placed, server_work, show, show_valid, summarise
from ..kit.scenario import Scenario
from ..load.member import QUEUE
from ..load.placement import Placement, client_cpus, place
from ..load.task import scratch

GROUPS = 100
NOTES = 300
DRAINS = ("plain", "two calls", "1 step", "3 steps", "once", "history")
BASE = {"1 step": "plain", "3 steps": "two calls", "once": "two calls", "history": "plain"}
"""With what each is compared."""
EMPTY = "return 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure."""

    messages: int
    bodies: tuple[int, ...]
    """Bytes of a body whose ledger is noted."""
    runs: int
    warmup: int
    placement: Placement = "apart"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


USUAL = Parameters(messages=10_000, bodies=(200, 16_384, 1_000_000), runs=5, warmup=1)
SMOKE = Parameters(messages=200, bodies=(200,), runs=1, warmup=0)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs, the cases in turn within each round. Raises ServerError."""
    cases = [*DRAINS, *(f"note, {size:,} B" for size in parameters.bodies)]
    sizes = dict(zip(cases[len(DRAINS) :], parameters.bodies, strict=True))

    def run(case: str, _turn: Turn) -> Run:
        with scratch(url) as (namespace, _directory):
            if case in sizes:
                return noted(url, namespace, case, sizes[case])
            return drained(url, namespace, case, parameters.messages)

    with placed(url, parameters.placement):
        place(0, client_cpus(parameters.placement))
        return measured(parameters, cases, run, on_run)


def drained(url: str, namespace: str, case: str, messages: int) -> Run:
    """One backlog, handled by one consumer. Raises ServerError."""
    ran: Counter[str] = Counter()
    settings: dict[str, Any] = {"history_window": 3600.0} if case == "history" else {}
    own = Link(Endpoint.from_url(url))
    with Sequencer(QUEUE, url, namespace=namespace, **settings) as queue:
        _declare(queue, case, ran, own)
        queue.append_many({"group": [n % GROUPS], "id": f"m{n}", "body": {"n": n}} for n in range(messages))
        before, began = server_work(url), time.monotonic()
        queue.consume(until_empty=True)
        seconds = time.monotonic() - began
        server_s = server_work(url).since(before).cpu_s
    own.close()
    calls = 3 if case == "3 steps" else 1
    is_right = len(ran) == messages and set(ran.values()) == {calls}
    figures = {"messages a second": messages / seconds, "server us": server_s / messages * 1e6}
    problem = "" if is_right else f"{len(ran)} of {messages} messages, each {sorted(set(ran.values()))} times"
    return Run(case=case, turn=Turn(0, 1, False), messages=messages, problem=problem, single=figures)


def _declare(queue: Sequencer, case: str, ran: Counter[str], own: Link) -> None:
    def count(message: Any) -> None:
        ran[message.id] += 1

    def call_twice(message: Any) -> None:
        own.command("PING")
        own.command("PING")
        ran[message.id] += 1

    if case in ("1 step", "3 steps"):
        for order in range(1 if case == "1 step" else 3):
            queue.step(order=order, name=f"step-{order}")(count)
    elif case == "once":
        queue.step(once=True, name="once")(count)
    else:
        queue.handler(call_twice if case == "two calls" else count)


def noted(url: str, namespace: str, case: str, size: int) -> Run:
    """Notes of one message, beside as many empty scripts. Raises ServerError."""
    keys = shard_keys(namespace, QUEUE, 0)
    with Sequencer(QUEUE, url, namespace=namespace) as queue:
        queue.append("x" * size, 1, id="m")
    link = Link(Endpoint.from_url(url))
    try:
        (group,) = link.run_one(claim(keys, QUEUE, "bench", 600.0, ClaimLimits(1, 1))).groups
        ledger = Ledger(int(group.members[0][:16]), (Entry("charge", state="done", result={"payment": "p9"}),))
        written, text = Written(b"", 0, has_effects=False), encode_ledger(ledger)
        empty_us = _script_us(url, lambda: [link.command("EVAL", EMPTY, 0) for _ in range(NOTES)])
        codes = []

        def write() -> None:
            nonlocal written
            for _ in range(NOTES):
                written = written.next(text, has_effects=True)
                one = SaveStep(group.key, group.token, group.members[0], "", written, True)
                codes.append(link.run_one(save_step(keys, one)))

        note_us = _script_us(url, write)
    finally:
        link.close()
    problem = "" if codes == [1] * NOTES else "a note was refused"
    figures = {"note us": note_us, "empty script us": empty_us, "notes in empty scripts": note_us / empty_us}
    return Run(case=case, turn=Turn(0, 1, False), messages=NOTES, problem=problem, single=figures)


def _script_us(url: str, work: Callable[[], object]) -> float:
    """What a script takes by the server's own account, on average of all that `work` calls."""

    def taken() -> tuple[int, int]:
        link = Link(Endpoint.from_url(url))
        try:
            lines = link.command("INFO", "commandstats").decode().splitlines()
        finally:
            link.close()
        stats = [line.partition(":")[2] for line in lines if line.startswith(("cmdstat_eval:", "cmdstat_evalsha:"))]
        fields = [dict(pair.split("=") for pair in line.split(",")) for line in stats]
        return sum(int(one["calls"]) for one in fields), sum(int(one["usec"]) for one in fields)

    calls, us = taken()
    work()
    more_calls, more_us = taken()
    return (more_us - us) / max(1, more_calls - calls)


# -- what came out --------------------------------------------------------------------------------------------


def _summarise(runs: list[Run]) -> list[dict[str, Any]]:
    return summarise(runs, lambda run: BASE.get(run.case))


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and rows."""
    rate, server = "messages a second", "server us"
    drains = [entry for entry in summary if rate in entry["figures"]]
    yield (
        "One consumer, handlers that do nothing: median (min..max)",
        ["case", "valid runs", rate, "server, us a message", "compared with", "rate over its"],
        [
            [
                entry["case"],
                show_valid(entry),
                show(entry["figures"][rate], 0),
                show(entry["figures"][server], 1),
                entry["base"] or "-",
                show(entry["of_base"].get(rate)),
            ]
            for entry in drains
        ],
    )
    notes = [entry for entry in summary if "note us" in entry["figures"]]
    yield (
        "One note, by the server's commandstats: median (min..max)",
        ["case", "valid runs", "note, us", "empty script, us", "notes in empty scripts"],
        [
            [
                entry["case"],
                show_valid(entry),
                *(show(entry["figures"][name], 1) for name in ("note us", "empty script us", "notes in empty scripts")),
            ]
            for entry in notes
        ],
    )


SCENARIO = Scenario("steps", USUAL, SMOKE, measure, _summarise, tables)


@SCENARIO.command
def command(usual: Parameters) -> Parameters:
    """What steps of a message, a note of their ledger, and a history cost."""
    return usual
