"""The one table of what is compared: versions, settings that are tried, and how many messages each can take. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sequencer.values.version import VERSION

from ..load.workload import ZIPF_GROUPS, Spread

Kind = Literal["own", "node", "python"]
Setting = dict[str, Any]
IOREDIS_4, IOREDIS_5 = "ioredis@4.28.5", "ioredis@5.11.1"
HIREDIS = "hiredis==3.4.0"


@dataclass(frozen=True, slots=True)
class Column:
    """One thing that is measured, over these groups."""

    name: str
    title: str
    spread: Spread
    is_append: bool = False
    is_batch: bool = False


COLUMNS = (
    Column("one", "append one by one", Spread(100), is_append=True),
    Column("batch", "append in batches", Spread(100), is_append=True, is_batch=True),
    Column("1", "consume 1 group", Spread(1)),
    Column("100", "100 groups", Spread(100)),
    Column("5000", "5,000 groups", Spread(5000)),
    Column("zipf", "5,000, zipf", Spread(ZIPF_GROUPS, True)),
)
BY_NAME = {column.name: column for column in COLUMNS}


@dataclass(frozen=True, slots=True)
class System:
    """One system: its packages, versions pinned; messages in a cell; and the settings of which the best is taken."""

    name: str
    kind: Kind
    packages: tuple[str, ...] = ()
    is_ordered: bool = True
    """Whether it promises order in each group: if not, disorder is counted, and no reason to refuse its figures."""
    one: int = 3_000
    batch: int = 3_000
    consume: int = 3_000
    batch_settings: tuple[Setting, ...] = ()
    """None: it has no way to append many that is quicker than one by one. Of several, the likely best is the first."""
    consume_settings: tuple[Setting, ...] = ({},)
    note: str = ""

    @property
    def version(self) -> str:
        if not self.packages:
            return VERSION if self.name == "sequencer" else "-"
        return self.packages[0].replace("==", "@").rpartition("@")[2]

    def can(self, column: Column) -> bool:
        """Groups mean nothing to a system without order: one figure for consuming is all there is of it."""
        if column.is_append:
            return not column.is_batch or bool(self.batch_settings)
        return self.is_ordered or column.name == "100"

    def messages(self, column: Column) -> int:
        return (self.batch if column.is_batch else self.one) if column.is_append else self.consume

    def settings(self, column: Column) -> tuple[Setting, ...]:
        """Those to try for this column."""
        if column.is_append:
            return self.batch_settings if column.is_batch else ({},)
        return self.consume_settings


def _each(name: str, *values: int) -> tuple[Setting, ...]:
    return tuple({name: value} for value in values)


WINDOWS = _each("window", 1000, 100)

SYSTEMS = (
    System(
        "sequencer", "own", one=20_000, batch=100_000, consume=100_000, batch_settings=({},),
        note="default options: append, append_many, consume; scores are the time in ms, many of them equal",
    ),
    System(
        "groupmq", "node", ("groupmq@1.1.0", IOREDIS_5), one=20_000, batch=60_000, consume=40_000,
        batch_settings=(
            {"autoBatch": 100, "window": 1000},
            {"autoBatch": 100, "window": 100},
            {"autoBatch": 0, "window": 1000},
            {"autoBatch": 0, "window": 100},
            {"autoBatch": 1000, "window": 1000},
        ),
        consume_settings=_each("concurrency", 32, 8, 1, 128),
        note="orderMs is the time in ms, with jobId; autoBatch 0 sends each add by itself, `window` of them at once",
    ),
    System(
        "naive", "own", one=10_000, consume=10_000,
        note="list, SETNX guard and lock; scores are the producer's numbers, as equal ones come out in disorder",
    ),
    System(
        "redis-ordered-queue", "node", ("redis-ordered-queue@1.4.2", IOREDIS_4),
        one=20_000, batch=60_000, consume=20_000, batch_settings=WINDOWS,
        consume_settings=(
            {"consumers": 32, "batchSize": 1000},
            {"consumers": 8, "batchSize": 1000},
            {"consumers": 8, "batchSize": 10},
            {"consumers": 1, "batchSize": 1000},
            {"consumers": 1, "batchSize": 10},
        ),
        note="the priority is the producer's number, as equal ones come out in disorder",
    ),
    System(
        "taskiq", "python", ("taskiq==0.13.0", "taskiq-redis==1.2.4", HIREDIS), is_ordered=False,
        batch_settings=WINDOWS, consume_settings=_each("concurrency", 100, 10, 1), note="ListQueueBroker, no results",
    ),
    System(
        "saq", "python", ("saq[redis]==0.26.4", "typing-extensions==4.15.0", HIREDIS), is_ordered=False,
        batch_settings=WINDOWS, consume_settings=_each("concurrency", 100, 10, 1), note="ttl=-1: nothing kept",
    ),
    System(
        "arq", "python", ("arq==0.28.0", HIREDIS), is_ordered=False,
        batch_settings=WINDOWS, consume_settings=_each("concurrency", 100, 10, 1),
        note="keep_result=0, poll_delay=0.01",
    ),
    System(
        "dramatiq", "python", ("dramatiq[redis]==2.2.1", HIREDIS), is_ordered=False,
        consume_settings=_each("threads", 8, 1), note="no results",
    ),
    System(
        "celery", "python", ("celery[redis]==5.7.0", HIREDIS), is_ordered=False,
        consume_settings=_each("prefetch", 4, 64),
        note="ignore_result, pool solo, without gossip, mingle and heartbeat",
    ),
    System(
        "rq", "python", ("rq==2.12.0", HIREDIS), is_ordered=False, batch_settings=WINDOWS,
        note="SimpleWorker, result_ttl=0",
    ),
    System(
        "streaq", "python", ("streaq==7.2.0",), is_ordered=False,
        batch_settings=WINDOWS, consume_settings=_each("concurrency", 100, 16, 1), note="ttl=0: no results",
    ),
)  # fmt: skip
ALL = {system.name: system for system in SYSTEMS}


def parse(text: str) -> tuple[System, ...]:
    """`sequencer,groupmq`; sequencer is always among them, since all is compared with it. Raises ValueError."""
    names = text.split(",")
    for name in names:
        if name not in ALL:
            raise ValueError(f"system {name!r} must be one of {', '.join(ALL)}")
    return tuple(system for system in SYSTEMS if system.name in names or system.name == "sequencer")


def parse_columns(text: str) -> tuple[Column, ...]:
    """`batch,zipf`. Raises ValueError."""
    names = text.split(",")
    for name in names:
        if name not in BY_NAME:
            raise ValueError(f"column {name!r} must be one of {', '.join(BY_NAME)}")
    return tuple(column for column in COLUMNS if column.name in names)
