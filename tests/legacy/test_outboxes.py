"""000, 001, 003 with an outbox: a message for each row that was committed, none for others, and effects once."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sequencer import Message, Sequencer
from sequencer.outbox import Relay

from .conftest import Load


@pytest.fixture
def connect(load: Load, tmp_path: Path) -> Any:
    def connect() -> Any:
        return sqlite3.connect(tmp_path / "shop.db")

    with connect() as database:
        for statement in load("outboxes").events.ddl("sqlite"):
            database.execute(statement)
        database.execute("CREATE TABLE tb_time_limit_task (k TEXT PRIMARY KEY, message TEXT)")
        database.execute("CREATE TABLE closed (number TEXT)")
    return connect


def relay(connect: Any, seq: Sequencer) -> None:
    one = Relay(connect, seq)
    while one.round():
        pass
    one.stop()
    one.run()


def roll_back(database: Any) -> None:
    database.rollback()
    database.close()


def test_events_and_gifts_are_those_of_committed_rows(
    load: Load, connect: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    outboxes, events, gifts = load("outboxes"), load("event_queue"), load("gift_compensation")
    with connect() as database:
        outboxes.add_event(database, 1, "order_invoice", {"amount": 50})
        outboxes.create_queue(database, "g1", {"to": "ann"})
    lost = connect()
    outboxes.add_event(lost, 2, "order_invoice", {"amount": 60})
    outboxes.create_queue(lost, "g2", {})
    roll_back(lost)
    for seq in (events.seq, gifts.seq):
        relay(connect, seq)
        seq.consume(until_empty=True)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:3] == ["1: invoice", "1: 5 points", "1: shop told of ['add_points', 'init_invoice']"]
    assert {"g1: debit", "g1: points"} < {*printed[3:]}
    assert len(printed[3:]) == len({*printed[3:]}) == 10
    assert all(line.startswith("g1: ") for line in printed[3:])


def test_a_timer_fires_as_it_was_set_last_and_once(load: Load, connect: Any, make: Any) -> None:
    outboxes, seq = load("outboxes"), make("timers", backoff=0.01)
    with connect() as database:
        for key in ("Order@close@1", "Order@close@2", "Order@close@3"):
            outboxes.create(database, key, 0)
    with connect() as database:
        outboxes.create(database, "Order@close@1", 0.3)
        assert outboxes.delete(database, "Order@close@2")
    lost = connect()
    assert outboxes.delete(lost, "Order@close@3")
    roll_back(lost)
    attempts = list[str]()

    def handle(message: Message) -> None:
        with connect() as database:
            if outboxes.fires(database, message):
                (number,) = message.body["arguments"]
                database.execute("INSERT INTO closed VALUES (?)", (number,))
        attempts.append(message.id)
        if attempts.count(message.id) == 1:
            raise ConnectionResetError("died between commit and acknowledgement")

    relay(connect, seq)
    seq.consume(handle, until_empty=True)
    assert len(attempts) == 8, "four messages, each of them twice"
    with connect() as database:
        assert [number for (number,) in database.execute("SELECT number FROM closed")] == ["3", "1"]
        assert database.execute("SELECT count(*) FROM tb_time_limit_task").fetchone() == (0,)
