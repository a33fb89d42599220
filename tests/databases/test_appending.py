"""Appends in the transactions of real databases: over each kind of connection, in the order of the commits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from sequencer.errors import InvalidBody
from sequencer.testing import wait_until
from tests.support.databases import Database

from .conftest import Tables

Opened = tuple[Any, Any]
"""What is given to `append`, and what commits, rolls back and closes."""


def dbapi(db: Database) -> Opened:
    one = db.connect()
    return one, one


def cursor(db: Database) -> Opened:
    one = db.connect()
    return one.cursor(), one


def engine(db: Database) -> Any:
    from sqlalchemy import NullPool, create_engine

    driver = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}[db.kind]
    return create_engine(db.url.replace(db.kind, driver, 1), poolclass=NullPool)


def sqlalchemy_connection(db: Database) -> Opened:
    one = engine(db).connect()
    return one, one


def sqlalchemy_session(db: Database) -> Opened:
    from sqlalchemy.orm import Session

    one = Session(engine(db))
    return one, one


def django(db: Database) -> Opened:
    from django.conf import settings
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure()
    given: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": db.directory / "app.db"}
    if db.kind == "postgresql":
        given = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres"}
        given |= {"HOST": "127.0.0.1", "PORT": db.port}
    if db.kind == "mysql":
        pytest.skip("Django's backend wants mysqlclient, which has to be compiled")
    one = ConnectionHandler({"default": given})["default"]
    one.set_autocommit(False)
    return one, one


@pytest.mark.filterwarnings("ignore:Accessing the database during app initialization")
@pytest.mark.parametrize("kind", [dbapi, cursor, sqlalchemy_connection, sqlalchemy_session, django])
def test_a_row_is_there_once_its_transaction_commits(tables: Tables, kind: Callable[[Database], Opened]) -> None:
    connection, owner = kind(tables.db)
    tables.outbox.append(connection, {"total": 1}, ["1002", "x%y"], id="rolled back")
    owner.rollback()
    assert tables.outbox.append(connection, {"total": "é%s?"}, ["1002", "x%y"], id="kept") == "kept"
    assert tables.rows() == []
    tables.outbox.append_many(connection, [{"body": 1, "group": "b", "id": "2"}, {"body": 2, "group": "a", "id": "1"}])
    owner.commit()
    owner.close()
    assert tables.rows("mid, grp") == [("kept", "1002:x%25y"), ("1", "a"), ("2", "b")]
    seq = tables.make()
    assert tables.relay().round() == 3
    assert [message.body for message in seq.peek(["1002", "x%y"])] == [{"total": "é%s?"}]


def waits(db: Database) -> bool:
    """Whether a transaction waits for a lock."""
    if db.kind == "postgresql":
        return bool(db.query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    return bool(db.query("SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"))


def in_opposition(tables: Tables, turn: int) -> None:
    """A transaction appends, another one comes and waits, and the first appends once more and commits."""
    first, done = tables.db.connect(), threading.Event()

    def late() -> None:
        tables.append(f"{turn} c")
        done.set()

    tables.outbox.append(first, {}, "g", id=f"{turn} a")
    thread = threading.Thread(target=late)
    thread.start()
    if tables.db.kind != "sqlite":  # which does not say who waits, and has one writer anyway
        wait_until(lambda: waits(tables.db) or done.is_set(), what="the second one to wait")
    tables.outbox.append(first, {}, "g", id=f"{turn} b")
    first.commit()
    thread.join(30)
    assert done.is_set()
    first.close()


def test_rows_of_a_group_have_ids_in_the_order_of_commits(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the one that waits has an older snapshot."""
    tables.append("first")
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_isolation=serializable")
    expected = [("first",)]
    for turn in range(20):
        in_opposition(tables, turn)
        expected += [(f"{turn} {name}",) for name in "abc"]
    assert tables.rows() == expected


IDS_FIRST = (
    "INSERT INTO {p}outbox (queue, grp, part, mid, score, envelope, due, ledger, at, batch)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0)",
    "INSERT INTO {p}groups VALUES ('jobs', 'g') ON CONFLICT (queue, grp) DO UPDATE SET grp = excluded.grp",
)


@pytest.mark.nightly
def test_an_id_drawn_before_the_lock_shows(
    databases: Callable[[str], Database], make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = Tables(databases("postgresql"), make)

    def statements(_outbox: Any, _dialect: str, item: Any) -> Any:
        given = ("jobs", item.group, 0, item.id, item.score, item.envelope, item.due, item.ledger)
        return [(text.format(p=tables.prefix), one) for text, one in zip(IDS_FIRST, (given, ()), strict=True)]

    monkeypatch.setattr(type(tables.outbox), "_statements", statements)
    in_opposition(tables, 0)
    assert tables.rows() == [("0 a",), ("0 c",), ("0 b",)]


def test_two_that_append_to_groups_in_opposite_order_do_not_deadlock(tables: Tables) -> None:
    def many(groups: list[str]) -> None:
        with closing(tables.db.connect()) as connection:
            for _ in range(20):
                tables.outbox.append_many(connection, [{"body": 1, "group": one} for one in groups])
                connection.commit()

    groups = [f"g{number}" for number in range(10)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(many, (groups, groups[::-1])))
    assert len(tables.rows()) == 400


def test_what_the_queue_would_refuse_is_refused_before_the_commit(tables: Tables) -> None:
    connection = tables.db.connect()
    with pytest.raises(InvalidBody):
        tables.outbox.append(connection, {"text": "x" * 2_000_000}, "g")
    connection.commit()
    connection.close()
    assert tables.rows() == []


def test_the_longest_names_fit(tables: Tables) -> None:
    tables.append("é" * 128, group="g" * 512)
    assert tables.rows() == [("é" * 128,)]
    assert tables.relay().round() == 1


def test_statements_for_a_driver_of_ones_own(tables: Tables) -> None:
    connection = tables.db.connect()
    style = "qmark" if tables.db.kind == "sqlite" else "format"
    one = connection.cursor()
    for text, given in tables.outbox.statements(tables.db.kind, style, 1, group="g"):
        one.execute(text, given)
    connection.commit()
    connection.close()
    assert len(tables.rows()) == 1
