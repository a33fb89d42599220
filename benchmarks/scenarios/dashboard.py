"""Scenario `dashboard`: what pages that are polled take, and what viewers cost the server, at a million groups.

One queue, filled once: of its groups a tenth is parked, half waits, the rest is due, 1,000 are paused; 2 % as many
dead letters, and a history of 10 %. `sequencer web` runs as a process of its own, and is asked over HTTP.

    pages   each page is asked once a period, so nothing is shared with the time before; those that are polled take
            turns as the first, which reads what the others share: time of an answer, and the commands that the server
            carried out for it. `server %`: of its processor. `longest us`: of the commands of all pages, with its name
    tabs    connections that ask for a page as its script does, each period; `none`: nobody looks any more
"""

from __future__ import annotations

import http.client
import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

import typer

from sequencer.client import Sequencer
from sequencer.values.message import Message
from sequencer.web.sampler import PERIOD_S

from ..kit.rounds import Run, Turn, measured, show, show_valid
from ..kit.rounds import summarise as summarise_runs
from ..kit.scenario import Scenario
from ..kit.server import PREFIX, Gauge, bare_server

COMMAND = [sys.executable, "-P", "-c", "import sequencer_start; sequencer_start.main()"]
TOKEN = "a-token-of-the-benchmark"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
SHARE = 4
"""The script of the pages waits this many times as long as the last answer took, but at least a period."""
POLLED = {
    "queues": "/",
    "queue": "/q/bench/",
    "group, parked": f"/q/bench/group?{urlencode({'g': 'parked1'})}",
    "group, due": f"/q/bench/group?{urlencode({'g': 'due1'})}",
    "message": f"/q/bench/message?{urlencode({'g': 'parked1', 'id': 'parked1'})}",
}
ASKED = {f"groups, {state}": f"/q/bench/groups?state={state}" for state in ("parked", "due", "waiting", "paused")}
ASKED |= {"groups, leased": "/q/bench/groups?state=leased", "dead": "/q/bench/dead", "history": "/q/bench/history"}
WATCHED = ("queues", "queue", "group, parked")
Sizes = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    groups: int
    rounds: int
    """How often each page is asked in a run."""
    tabs: int
    watch_s: float
    """How long each number of tabs looks."""
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def sizes(self) -> Sizes:
        shares = {"handled": 0.1, "dead": 0.02, "parked": 0.1, "waiting": 0.5, "due": 0.4}
        return {name: max(1, round(self.groups * share)) for name, share in shares.items()} | {
            "paused": min(1000, self.groups // 10)
        }


USUAL = Parameters(groups=1_000_000, rounds=60, tabs=50, watch_s=20, runs=3, warmup=0)
SMOKE = replace(USUAL, groups=200, rounds=2, tabs=4, watch_s=2.5, runs=1)


def fill(queue: Sequencer, sizes: Sizes) -> None:
    def append(name: str, **more: Any) -> None:
        queue.append_many({"body": n, "group": f"{name}{n}", "id": f"{name}{n}", **more} for n in range(sizes[name]))

    def handle(message: Message) -> None:
        name = message.group[0]
        if name.startswith("dead"):
            raise KeyError("no customer")
        if name.startswith("parked"):
            raise (ValueError if message.body % 3 else LookupError)("no answer")

    logging.getLogger("sequencer").setLevel(logging.CRITICAL)
    for name in ("handled", "dead", "parked"):
        append(name)
        queue.consume(handle, until_empty=True)
    queue.skip_many(error="KeyError")
    append("waiting", delay=86_400)
    append("due")
    append("paused")
    for n in range(sizes["paused"]):
        queue.pause(f"paused{n}")


@contextmanager
def served(url: str, namespace: str) -> Iterator[str]:
    """Host and port of the dashboard."""
    words = [*COMMAND, "web", "--port", "0", "--redis", url, "--namespace", namespace]
    environment = {**os.environ, "SEQUENCER_WEB_TOKEN": TOKEN}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield urlsplit(process.stdout.readline().strip()).netloc
        finally:
            process.terminate()


def ask(connection: http.client.HTTPConnection, path: str) -> float:
    """Milliseconds until its answer was read. Raises RuntimeError for another than a page."""
    began = time.perf_counter()
    connection.request("GET", path, headers=HEADERS)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}")
    return 1000 * (time.perf_counter() - began)


def commands(gauge: Gauge) -> int:
    """Carried out so far, with those of scripts, without the look itself."""
    found = gauge.info("commandstats")
    counts = {name: int(text.partition("calls=")[2].partition(",")[0]) for name, text in found.items()}
    return sum(count for name, count in counts.items() if name not in ("cmdstat_info", "cmdstat_config|resetstat"))


def longest(gauge: Gauge) -> tuple[float, str]:
    """The slowest command since the statistics began, in us."""
    found = {
        name.removeprefix(PREFIX): float(text.rpartition("p100=")[2])
        for name, text in gauge.info("latencystats").items()
        if "p100=" in text
    }
    return max(
        ((us, name) for name, us in found.items() if name not in ("info", "config|resetstat")), default=(0.0, "")
    )


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    namespace = f"bench-{secrets.token_hex(4)}"
    options: dict[str, Any] = {"namespace": namespace, "max_attempts": 1, "history_window": "1d"}
    with Sequencer("bench", url, **options) as queue, Gauge(url) as gauge, gauge.percentiles():
        try:
            fill(queue, parameters.sizes)
            with served(url, namespace) as place:
                first = http.client.HTTPConnection(place, timeout=60)
                for path in (POLLED | ASKED).values():
                    ask(first, path)  # templates are compiled
                cases = ["pages", "none", *(f"{tabs} x {name}" for name in WATCHED for tabs in (1, parameters.tabs))]

                def run(case: str, turn: Turn) -> Run:
                    single, samples, problem = dict[str, float](), dict[str, list[float]](), ""
                    settings = dict[str, Any]()
                    gauge.settle()
                    gauge.reset_calls()
                    cpu_s, began = gauge.cpu_s(), time.monotonic()
                    try:
                        if case == "pages":
                            _pages(place, gauge, parameters.rounds, single, samples)
                        else:
                            _tabs(place, case, parameters.watch_s, single, samples)
                    except (OSError, RuntimeError) as error:
                        problem = str(error)
                    spent_s = time.monotonic() - began
                    single["commands/s"] = commands(gauge) / spent_s
                    single["server %"] = 100 * (gauge.cpu_s() - cpu_s) / spent_s
                    if case != "none":
                        single["longest us"], settings["longest"] = longest(gauge)
                    messages = sum(parameters.sizes.values())
                    about: dict[str, Any] = {"single": single, "samples": samples, "settings": settings}
                    return Run(case=case, turn=turn, messages=messages, problem=problem, **about)

                return measured(parameters, cases, run, on_run)
        finally:
            queue.delete()


def _pages(place: str, gauge: Gauge, rounds: int, single: dict[str, float], samples: dict[str, list[float]]) -> None:
    polled, counts = [*POLLED.items()], dict[str, int]()
    connection = http.client.HTTPConnection(place, timeout=60)
    for number in range(rounds):
        next_at = time.monotonic() + PERIOD_S * 1.05
        at = number % len(polled)
        for name, path in [*polled[at:], *polled[:at], *ASKED.items()]:
            before = commands(gauge)
            samples.setdefault(name, []).append(ask(connection, path))
            counts[name] = max(counts.get(name, 0), commands(gauge) - before)
        time.sleep(max(0.0, next_at - time.monotonic()))
    for name, values in samples.items():
        single[f"{name} p95"] = sorted(values)[round(0.95 * (len(values) - 1))]
        single[f"{name} commands"] = counts[name]


def _tabs(place: str, case: str, watch_s: float, single: dict[str, float], samples: dict[str, list[float]]) -> None:
    until, errors = time.monotonic() + watch_s, list[str]()
    count, _, name = case.partition(" x ")
    taken = samples.setdefault("ms", []) if name else []

    def look(path: str) -> None:
        connection = http.client.HTTPConnection(place, timeout=60)
        try:
            while time.monotonic() < until:
                taken.append(ask(connection, path))
                time.sleep(max(0.0, min(max(PERIOD_S, SHARE * taken[-1] / 1000), until - time.monotonic())))
        except (OSError, RuntimeError) as error:
            errors.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=look, args=[POLLED[name]]) for _ in range(int(count) if name else 0)]
    for thread in threads:
        thread.start()
        time.sleep(min(0.01, watch_s / 100))  # people do not come all at once
    time.sleep(max(0.0, until - time.monotonic()))
    for thread in threads:
        thread.join()
    if errors:
        raise RuntimeError(errors[0])
    single["answers"] = len(taken)


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    return summarise_runs(runs)


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    pages, *tabs = summary
    figures, rows = pages["figures"], list[list[str]]()
    for name in POLLED | ASKED:
        polled = "yes" if name in POLLED else "no"
        rows.append([name, polled, *(show(figures.get(f"{name} {which}"), 1) for which in ("p50", "p95", "commands"))])
    columns = ["page", "polled", "p50 ms", "p95 ms", "commands at most"]
    yield f"Pages, asked once a period: median (min..max); {show_valid(pages)} valid", columns, rows
    names = ("answers", "ms p50", "commands/s", "server %", "longest us")
    rows = [
        [one["case"], *(show(one["figures"].get(name), 2) for name in names), one["settings"].get("longest", "-")]
        for one in (pages, *tabs)
    ]
    yield "What it costs the server", ["tabs", *names, "command"], rows


SCENARIO = Scenario("dashboard", USUAL, SMOKE, measure, summarise, tables, server=bare_server)


@SCENARIO.command
def command(
    usual: Parameters,
    groups: Annotated[
        int | None, typer.Option(min=100, max=10**7, help="Groups with messages.  [1000000; smoke: 200]")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=2, max=1000, help="Answers of each page.  [60; smoke: 2]")] = None,
    tabs: Annotated[int | None, typer.Option(min=1, max=500, help="Tabs, beside one.  [50; smoke: 4]")] = None,
) -> Parameters:
    """What pages of the dashboard take, and what viewers cost the server, at a million groups."""
    given = {"groups": groups, "rounds": rounds, "tabs": tabs}
    return replace(usual, **{name: value for name, value in given.items() if value})
