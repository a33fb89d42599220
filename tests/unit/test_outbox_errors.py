"""What is said of a driver's error, and a relay that ends leaves its place to another one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sequencer.errors import SequencerError
from sequencer.outbox import Outbox
from sequencer.outbox.drivers import refusal_of
from sequencer.outbox.relay import Relay


class UndefinedTable(sqlite3.Error):
    """As psycopg names it."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (sqlite3.OperationalError("no such table: sequencer_outbox"), "outbox_missing"),
        (sqlite3.ProgrammingError(1146, "Table 'shop.x' doesn't exist"), "outbox_missing"),
        (UndefinedTable("relation"), "outbox_missing"),
        (sqlite3.OperationalError("database is locked"), "database_failed"),
        (ValueError("no such table"), None),
    ],
)
def test_what_is_said_of_the_error_of_a_driver(error: Exception, code: str | None) -> None:
    found = refusal_of(error)
    assert (found and found.code) == code
    assert found is None or str(found)


class Queue:
    name = "orders"

    def __init__(self) -> None:
        self.got = list[str]()

    def shards_of(self, groups: Any) -> list[int]:
        return [0 for _ in groups]

    def last_batches(self, relay: str) -> list[int]:
        return [0]

    def send_batches(self, relay: str, batches: Any) -> list[int | SequencerError | None]:
        self.got += [item.id for batch in batches for item in batch.items]
        return [None for _ in batches]


def test_a_relay_that_ends_leaves_its_place(tmp_path: Path) -> None:
    def connect() -> Any:
        return sqlite3.connect(tmp_path / "db")

    outbox, queue = Outbox("orders"), Queue()
    with connect() as database:
        for statement in outbox.ddl("sqlite"):
            database.execute(statement)
    first, second = (Relay(connect, queue) for _ in range(2))
    first.round()
    with connect() as database:
        outbox.append(database, {}, "g", id="a")
    assert second.round() == 0
    assert not queue.got, "the first one leads"
    first.stop()
    first.run()
    assert (second.round(), queue.got) == (1, ["a"])
