"""Scenario `outbox`: what an append in a database's transaction costs, how fast a relay is, and how large tables get.

One run, on the database of `--db` (else SQLite in a file), in tables of its own that are dropped at its end:

    appending   transactions that write a business row, and besides either a plain row of the same size or a message
                through an outbox, in turns; `of plain %`: of their times
    relay       messages a second from rows that wait into the queue, by one thread; `per cpu s`: by its own CPU time
    latency     from the commit to the begin of a handler, with a relay and a consumer that idle
    a day       N messages, as fast as it goes, with clocks that pass a day meanwhile: appended, relayed, deleted
                after 10 minutes of it, and noted in an inbox: bytes and rows of each table then, and of the inbox after
                it was cleaned and half as many came
"""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import typer

from sequencer import Message
from sequencer.client import Sequencer
from sequencer.outbox import Inbox, Outbox, Relay
from sequencer.outbox.drivers import connector, opened
from sequencer.outbox.operate import Operated

from ..kit.report import show_range
from ..kit.rounds import Run, Turn, measured, show_valid
from ..kit.rounds import summarise as summarise_runs
from ..kit.scenario import Scenario

BODY = {"order": 1002, "text": "x" * 150}
GROUPS, MANY = 500, 100
DAY_S, KEEP_S = 86_400.0, 600.0
NAMES = ("groups", "outbox", "inbox", "fences")
SIZES = {
    "postgresql": "SELECT pg_total_relation_size('{}')",
    "mysql": "SELECT data_length + index_length + data_free FROM information_schema.tables WHERE table_name = '{}'",
    "sqlite": "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master WHERE tbl_name = '{}')",
}
SERIALS = {"postgresql": "bigserial", "mysql": "bigint AUTO_INCREMENT", "sqlite": "integer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What to measure; `db` is a URL, "" a file of SQLite."""

    db: str
    transactions: int
    messages: int
    day: int
    probes: int
    runs: int
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "db": self.db.partition(":")[0]}


USUAL = Parameters(db="", transactions=2000, messages=20_000, day=20_000, probes=200, runs=3, warmup=0)
SMOKE = replace(USUAL, transactions=20, messages=200, day=200, probes=5, runs=1)


class Tables:
    """Those of one run."""

    def __init__(self, url: str) -> None:
        self.connect, self.prefix = connector(url), f"bench_{secrets.token_hex(4)}_"
        self.operated = Operated(self.connect, "bench", prefix=self.prefix)
        self.operated.create()
        self.outbox, self.connection = Outbox("bench", prefix=self.prefix), self.connect()
        self.dialect, self.execute = opened(self.connection)
        for name in ("business", "plain"):
            key = f"id {SERIALS[self.dialect]} PRIMARY KEY"
            self.execute(f"CREATE TABLE {name}_{self.prefix} ({key}, grp varchar(40), body varchar(400))", ())
        self.connection.commit()

    def insert(self, name: str, group: str) -> None:
        self.execute(f"INSERT INTO {name}_{self.prefix} (grp, body) VALUES (?, ?)", (group, str(BODY)))

    def size(self, name: str) -> tuple[float, float]:
        """Rows and bytes."""
        if self.dialect == "mysql":
            self.execute(f"ANALYZE TABLE {self.prefix}{name}", ()).fetchall()
        ((rows,),) = self.execute(f"SELECT count(*) FROM {self.prefix}{name}", ()).fetchall()
        ((found,),) = self.execute(SIZES[self.dialect].format(f"{self.prefix}{name}"), ()).fetchall()
        self.connection.commit()
        return float(rows), float(found)

    def fill(self, count: int, first: int = 0) -> None:
        for start in range(first, first + count, MANY):
            items = [{"body": BODY, "group": f"g{number % GROUPS}"} for number in range(start, start + MANY)]
            self.outbox.append_many(self.connection, items)
            self.connection.commit()

    def close(self) -> None:
        names = [f"{self.prefix}{name}" for name in ("relays", *NAMES)]
        for name in [*names, f"business_{self.prefix}", f"plain_{self.prefix}"]:
            self.execute(f"DROP TABLE IF EXISTS {name}", ())
        self.connection.commit()
        self.connection.close()


def measure(url: str, parameters: Parameters, on_run: Callable[[Run], None]) -> list[Run]:
    def run(case: str, turn: Turn) -> Run:
        with tempfile.TemporaryDirectory(prefix="sequencer-bench-") as directory:
            single, db = dict[str, float](), parameters.db or f"sqlite:///{directory}/bench.db"
            with closing(Tables(db)) as tables, Sequencer("bench", url, namespace=tables.prefix[:-1]) as queue:
                delays = _latency(tables, queue, parameters)
                _append(tables, parameters, single)
                _relay(tables, queue, parameters, single)
                queue.delete()
            with closing(Tables(db)) as tables, Sequencer("bench", url, namespace=tables.prefix[:-1]) as queue:
                _day(tables, queue, parameters.day, single)
                queue.delete()
        problem = "" if len(delays) == parameters.probes else f"{len(delays)} of {parameters.probes} probes arrived"
        samples = {"latency ms": delays}
        return Run(case=case, turn=turn, messages=parameters.messages, problem=problem, single=single, samples=samples)

    return measured(parameters, [parameters.db.partition(":")[0] or "sqlite"], run, on_run)


def _append(tables: Tables, parameters: Parameters, single: dict[str, float]) -> None:
    """By turns, so that a slow moment falls on both."""
    taken = {"plain": 0.0, "outbox": 0.0}
    for number in range(parameters.transactions):
        for name in taken:
            began = time.perf_counter()
            group = f"g{number % GROUPS}"
            tables.insert("business", group)
            if name == "plain":
                tables.insert("plain", group)
            else:
                tables.outbox.append(tables.connection, BODY, group)
            tables.connection.commit()
            taken[name] += time.perf_counter() - began
    single.update({f"{name} ms": 1000 * spent / parameters.transactions for name, spent in taken.items()})
    single["of plain %"] = 100 * taken["outbox"] / taken["plain"]


def _relay(tables: Tables, queue: Sequencer, parameters: Parameters, single: dict[str, float]) -> None:
    relay = Relay(tables.connect, queue, prefix=tables.prefix, keep=0.0)
    tables.fill(parameters.messages)
    began, cpu = time.perf_counter(), time.thread_time()
    while relay.round():
        pass
    single["messages/s"] = relay.sent / (time.perf_counter() - began)
    single["per cpu s"] = relay.sent / (time.thread_time() - cpu)
    relay.stop()
    relay.run()  # closes its connection


def _day(tables: Tables, queue: Sequencer, count: int, single: dict[str, float]) -> None:
    relay, inbox, passed = (
        Relay(tables.connect, queue, prefix=tables.prefix, keep=KEEP_S),
        Inbox(prefix=tables.prefix),
        0,
    )
    relay._clock = lambda: DAY_S * passed / count

    def handled(number: int) -> None:
        for one in range(number, number + MANY):
            group = (f"g{one % GROUPS}",)
            message = Message(f"{tables.prefix}{one:x}", group, 0.0, BODY, {}, 1, one, 0.0, queue.queue, one)
            inbox.first(tables.connection, message)
        tables.connection.commit()

    for number in range(0, count, MANY):
        passed = number
        tables.fill(MANY, number)
        handled(number)
        while relay.round():
            pass
    relay.stop()
    relay.run()
    sizes = {name: tables.size(name) for name in NAMES if name != "groups" or tables.dialect != "sqlite"}
    while inbox.clean(tables.connection, queue.queue, -1.0):
        tables.connection.commit()
    for number in range(count, count + count // 2, MANY):
        handled(number)
    sizes["inbox again"] = tables.size("inbox")
    for name, (rows, found) in sizes.items():
        single.update({f"{name} rows": rows, f"{name} KB": found / 1000})


def _latency(tables: Tables, queue: Sequencer, parameters: Parameters) -> list[float]:
    relay = Relay(tables.connect, queue, prefix=tables.prefix, keep=0.0)
    delays, consumers = list[float](), list[Any]()
    ready = threading.Event()

    def handle(message: Any) -> None:
        delays.append(1000 * (time.time() - message.body))

    def consume() -> None:
        def started(one: Any) -> None:
            consumers.append(one)
            ready.set()

        with suppress(Exception):
            queue.consume(handle, on_start=started)

    threads = [threading.Thread(target=relay.run), threading.Thread(target=consume)]
    for thread in threads:
        thread.start()
    ready.wait(30)
    for number in range(parameters.probes):
        tables.outbox.append(tables.connection, time.time(), f"probe{number}")
        tables.connection.commit()
        time.sleep(0.05 + 0.001 * (number % 50))
    until = time.monotonic() + 10
    while len(delays) < parameters.probes and time.monotonic() < until:
        time.sleep(0.01)
    relay.stop()
    for one in consumers:
        one.stop()
    for thread in threads:
        thread.join()
    return delays


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    return summarise_runs(runs)


FIGURES = ("plain ms", "outbox ms", "of plain %", "messages/s", "per cpu s", "latency ms p50")
OF_DAY = [f"{name} {unit}" for name in (*NAMES, "inbox again") for unit in ("rows", "KB")]


def tables(summary: list[dict[str, Any]]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    rows = [[name, *[show_range(entry["figures"].get(name)) for entry in summary]] for name in (*FIGURES, *OF_DAY)]
    head = ["figure", *[f"{entry['case']} ({show_valid(entry)} valid)" for entry in summary]]
    yield "An outbox: median (min..max)", head, rows


SCENARIO = Scenario("outbox", USUAL, SMOKE, measure, summarise, tables)


@SCENARIO.command
def command(
    usual: Parameters,
    db: Annotated[str, typer.Option(help="URL of a database.  [SQLite in a file]")] = "",
    messages: Annotated[int | None, typer.Option(min=100, max=10**7, help="Of the relay.  [20000; smoke: 200]")] = None,
    day: Annotated[int | None, typer.Option(min=200, max=10**8, help="Messages a day.  [20000; smoke: 200]")] = None,
) -> Parameters:
    """What an append in a transaction costs, how fast a relay is, and how large its tables get."""
    return replace(usual, db=db, messages=messages or usual.messages, day=day or usual.day)
