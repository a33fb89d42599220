"""One run of a case: its processes on a server that was emptied, and what came of it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sequencer.client import Sequencer
from sequencer.doctor.server import parse_info
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link

from ..kit.rounds import Run, Turn, measured, server_work, wrong_in
from ..load.fleet import MemberFailed
from ..load.order_check import Handled
from ..load.placement import Placement, client_cpus, place_server
from ..load.workload import BODY_BYTES
from ..peers.cells import HERE
from ..peers.hand import Hand
from ..peers.host import Address
from ..peers.installation import python
from ..peers.workers.stage import Job
from .cases import OTHERS, PARTS, Case, cases

ROOT = HERE.parents[1]
CHECK_S, START_S, LIMIT_S = 0.1, 0.3, 60.0
SLOWEST_RATE = 100
NAME = "async"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure; `before`: another tree, "" for none."""

    parts: tuple[str, ...]
    peers: tuple[str, ...]
    cache: Path
    scale: float
    runs: int
    warmup: int
    before: str = ""
    placement: Placement = "apart"
    left_out: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "cache": str(self.cache)}


USUAL = Parameters(parts=PARTS, peers=tuple(OTHERS), cache=Path("bench-results") / "peers", scale=1.0, runs=5, warmup=0)
SMOKE = replace(USUAL, scale=0.01, runs=1)


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    """All runs. Raises ServerError."""
    address = Address.parse(url)
    todo = list(cases(parameters.parts, parameters.scale, parameters.peers, parameters.before))
    return measured(parameters, todo, lambda case, turn: run_case(address, parameters, case, turn), on_run)


def run_case(address: Address, parameters: Parameters, case: Case, turn: Turn) -> Run:
    """Its processes are gone afterwards. Raises ServerError."""
    address.command("FLUSHALL")
    place_server(address.url, parameters.placement)
    seed, pad = turn.seed, "x" * (BODY_BYTES - 40)
    plan = [(f"g{n % case.groups}", f"m{seed}-{n}", n + 1, {"number": n, "note": pad}) for n in range(case.messages)]
    figures: dict[str, float] = {}
    samples: dict[str, list[float]] = {}
    problem = ""
    with tempfile.TemporaryDirectory(prefix="sequencer-bench-") as directory, ExitStack() as stack:
        path = Path(directory) / "plan.json"
        path.write_text(json.dumps(plan))

        def hand(role: str, setting: Mapping[str, Any]) -> Hand:
            result = str(Path(directory) / f"{role}.json")
            job = Job(role, True, address.host, address.port, NAME, case.messages, str(path), result, dict(setting))
            command, where = process(case, setting.get("tree", ""), parameters.cache)
            return stack.enter_context(Hand(command, job, client_cpus(parameters.placement), **where))

        limit_s = LIMIT_S + case.messages / SLOWEST_RATE
        try:
            if case.consume is None:
                idle = server_work(address.url)
                sent = hand("produce", case.produce or {}).run(limit_s)
                work = server_work(address.url).since(idle)
                stored = backlog(address)
                problem = "" if stored == case.messages else f"{stored} of {case.messages} were stored"
                figures = {
                    "rate": case.messages / (sent["ended"] - sent["began"]),
                    "client us": sent["cpu_s"] / case.messages * 1e6,
                    "server us": work.cpu_s / case.messages * 1e6,
                }
            else:
                figures, samples, problem = consumed(address, case, plan, hand, limit_s)
        except MemberFailed as error:
            problem = str(error)
    return Run(
        case=case.case,
        turn=turn,
        messages=case.messages,
        problem=problem,
        single={} if problem else figures,
        samples={} if problem else samples,
        settings={"groups": case.groups, **(case.consume or {}), **(case.produce or {})},
        system=case.system,
    )


def consumed(
    address: Address, case: Case, plan: list[Any], hand: Callable[[str, Mapping[str, Any]], Hand], limit_s: float
) -> tuple[dict[str, float], dict[str, list[float]], str]:
    """Figures, samples and what is wrong. Raises MemberFailed, ServerError."""
    is_paced = "pace" in (case.produce or {})
    sent: Mapping[str, Any] = {}
    if case.produce is not None and not is_paced:
        hand("produce", case.produce).run(limit_s)
    consumer = hand("consume", case.consume or {})
    consumer.wait_ready()
    before = server_work(address.url)
    consumer.go()
    if is_paced:
        time.sleep(START_S)
        sent = hand("produce", case.produce or {}).run(limit_s)
    most = connections_until_end(address, consumer, limit_s)
    found = consumer.result()
    work, rows, count = server_work(address.url).since(before), found["rows"], case.messages
    problem = wrong_with(case, plan, rows)
    if problem:
        return {}, {}, problem
    figures = {
        "rate": count / (rows[-1][2] - (found["first"] or rows[0][2])),
        "client us": found["cpu_s"] / count * 1e6,
        "server us": work.cpu_s / count * 1e6,
        "scripts": sum(work.calls.get(name, 0) for name in ("eval", "evalsha")) / count,
        "connections": float(most),
        "at once": float(found["at_once"]),
    }
    if not is_paced:
        return figures, {}, ""
    began = {row[1]: row[2] for row in sent["rows"]}
    delays = [(at - began[name]) * 1000 for _, name, at in rows[len(rows) // 10 :]]
    return {name: figures[name] for name in ("client us", "scripts")}, {"delay ms": delays}, ""


def wrong_with(case: Case, plan: list[Any], rows: list[Any]) -> str:
    """What is wrong with a history, in words; the order of others is no concern of theirs. Pure."""
    if case.worker == "sequencer":
        numbers = {(group, name): number for group, name, number, _ in plan}
        return wrong_in(numbers, [Handled(group, name, 0.0, 0, 0, at, at) for group, name, at in rows])
    lost = len({name for _, name, *_ in plan} - {name for _, name, _ in rows})
    twice = len(rows) + lost - len(plan)
    return "; ".join(text for count, text in ((lost, f"{lost} losses"), (twice, f"{twice} duplicates")) if count)


def connections_until_end(address: Address, hand: Hand, limit_s: float) -> int:
    """The most connections that the server had, without the one that asks. Raises MemberFailed, ServerError."""
    link, most, until = Link(Endpoint.from_url(address.url)), 0, time.monotonic() + limit_s
    try:
        while not hand.has_died and time.monotonic() < until:
            most = max(most, int(parse_info(link.command("INFO", "clients").decode())["connected_clients"]) - 1)
            time.sleep(CHECK_S)
    finally:
        link.close()
    hand.wait(1.0)
    return most


def backlog(address: Address) -> int:
    """How many messages wait. Raises ServerError."""
    with Sequencer(NAME, address.url) as queue:
        return queue.info().backlog


def process(case: Case, tree: str, cache: Path) -> tuple[list[str], dict[str, Any]]:
    """The command of a worker, and where it runs; `tree`: of another version of this package."""
    words, path = ["-P", "-m", "workers", case.worker], str(HERE)
    if case.worker in OTHERS:
        directory = (cache / case.worker).absolute()
        interpreter, cwd = str(python(directory)), directory
    else:
        interpreter, cwd, path = sys.executable, ROOT, os.pathsep.join((path, tree or str(ROOT)))
    return [interpreter, *words], {"cwd": cwd, "env": {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}}
