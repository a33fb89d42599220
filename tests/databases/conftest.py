"""A database of each kind for the run, tables for each test. SQLite runs in merge, the others nightly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.outbox import Outbox, Relay
from sequencer.outbox.operate import Operated
from tests.support.databases import Database, database

KINDS = [pytest.param(name, marks=pytest.mark.nightly) for name in ("postgresql", "mysql")]
Make = Callable[..., Sequencer]


@pytest.fixture(scope="session")
def databases() -> Iterator[Callable[[str], Database]]:
    """Each is started when it is asked for first."""
    found: dict[str, Database] = {}
    with ExitStack() as stack:

        def get(kind: str) -> Database:
            if kind not in found:
                found[kind] = stack.enter_context(database(kind))
            return found[kind]

        yield get


@pytest.fixture(params=["sqlite", *KINDS])
def db(request: pytest.FixtureRequest, databases: Callable[[str], Database]) -> Database:
    return databases(request.param)


class Tables:
    """Tables of an outbox of the queue `jobs`, and who uses them."""

    numbers = itertools.count(1)

    def __init__(self, db: Database, make: Make, parts: int = 1) -> None:
        self.db, self.make, self.prefix, self.parts = db, make, f"t{next(self.numbers)}_", parts
        self.outbox = Outbox("jobs", prefix=self.prefix, parts=parts)
        self.operated = Operated(db.connect, "jobs", prefix=self.prefix, parts=parts)
        self.operated.create()
        self._relays: list[Relay] = []

    def relay(self, part: int = 0, redis: str = "", **options: Any) -> Relay:
        """To be used round by round."""
        queue = self.make(**{"redis": redis} if redis else {})
        self._relays.append(Relay(self.db.connect, queue, part=part, prefix=self.prefix, **options))
        return self._relays[-1]

    def close(self) -> None:
        for one in self._relays:
            one._close()

    def append(self, *names: str, group: str = "g", **arguments: Any) -> None:
        """In a transaction of its own."""
        connection = self.db.connect()
        for name in names:
            self.outbox.append(connection, {"name": name}, group, id=name, **arguments)
        connection.commit()
        connection.close()

    def rows(self, columns: str = "mid", where: str = "1 = 1") -> list[tuple[Any, ...]]:
        found = self.db.query(f"SELECT {columns} FROM {self.prefix}outbox WHERE {where} ORDER BY id")
        return [tuple(one.decode() if isinstance(one, bytes) else one for one in row) for row in found]


@pytest.fixture
def tables(db: Database, make: Make) -> Iterator[Tables]:
    with closing(Tables(db, make)) as found:
        yield found
