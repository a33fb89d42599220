"""What an operator sees of an outbox, and does about it. Each function is a transaction of its own, and commits."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from ..errors import MessageNotFound
from ..store.group import decode_group, encode_group
from ..store.item import Group
from ..values.pools import OutboxBacklog
from . import sql
from .drivers import Execute, refusal_of, text_of, with_tables
from .sql import Dialect


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """One part of an outbox."""

    queue: str
    part: int
    unsent: int
    """Rows that are not sent; of these, and the next two, at most 100,000 are counted."""
    held: int
    kept: int
    """Rows that were sent and are kept."""
    oldest_s: float
    """The age of the oldest that is not sent, 0.0 without one."""
    seen_s: float | None
    """Seconds since a relay wrote last; None before the first one."""


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A row that the queue refused. Later rows of its group wait for it."""

    group: tuple[str, ...]
    id: str
    error: str
    age_s: float


class Operated:
    """An outbox as an operator sees it, over connections that this opens. Raises ServerError where the database can't
    be used, ConfigurationError where it has no tables.
    """

    def __init__(self, connect: Callable[[], Any], queue: str, *, parts: int = 1, prefix: str = "sequencer_") -> None:
        self._connect, self.queue, self.parts, self._prefix = connect, queue, parts, prefix

    def create(self) -> None:
        """Make the tables that are not there."""
        with self._transaction() as (dialect, execute):
            for statement in sql.ddl(dialect, self._prefix):
                execute(statement, ())

    def status(self) -> list[OutboxStatus]:
        """Of each part."""
        return [self._status(part) for part in range(self.parts)]

    def backlog(self) -> OutboxBacklog:
        """What waits in all parts."""
        found = self.status()
        unsent, held = sum(one.unsent for one in found), sum(one.held for one in found)
        return OutboxBacklog(unsent, max(one.oldest_s for one in found), held)

    def held(self, limit: int = 100) -> list[HeldRow]:
        """Rows that the queue refused, the oldest of each part first."""
        found = [row for part in range(self.parts) for row in self._run(sql.HELD, self.queue, part, limit)[1]]
        return [HeldRow(decode_group(text_of(grp)), text_of(mid), *more) for grp, mid, *more in found[:limit]]

    def release(self, group: Group | None = None) -> int:
        """Send held rows again, all or that of a group, and what waits behind them; how many there were."""
        if group is not None:
            return self._run(f"{sql.RELEASE} AND grp = ?", *self._of(group))[0]
        return sum(self._run(sql.RELEASE, self.queue, part)[0] for part in range(self.parts))

    def skip(self, group: Group, id: str) -> None:
        """Drop a held row for good; its group goes on. Raises MessageNotFound."""
        if not self._run(sql.SKIP, *self._of(group), id)[0]:
            raise MessageNotFound("not_held", queue=self.queue, group=decode_group(encode_group(group)), id=id)

    def renew(self) -> None:
        """Go on under a new name after the database was restored: rows not known as sent are sent again, by id."""
        for part in range(self.parts):
            self._run(sql.RENEW, secrets.token_hex(8), self.queue, part)

    def _status(self, part: int) -> OutboxStatus:
        with self._transaction() as (_, execute):
            asked = [execute(one, (self.queue, part)).fetchall() for one in (*sql.COUNTS, sql.OLDEST, sql.SEEN)]
        found: list[Any] = [next(iter(rows), (None,))[0] for rows in asked]
        unsent, held, kept, oldest_s, seen_s = found
        return OutboxStatus(self.queue, part, unsent, held, kept, float(oldest_s or 0.0), seen_s)

    def _of(self, group: Group) -> tuple[str, int, str]:
        text = encode_group(group)
        return self.queue, crc32(text.encode()) % self.parts, text

    def _run(self, statement: str, *given: Any) -> tuple[int, list[Any]]:
        """How many rows it changed, and those it found."""
        with self._transaction() as (_, execute):
            cursor = execute(statement, given)
            return cursor.rowcount, list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def _transaction(self) -> Iterator[tuple[Dialect, Execute]]:
        try:
            with closing(self._connect()) as connection:
                yield with_tables(connection, self._prefix)
                connection.commit()
        except Exception as error:
            if refusal := refusal_of(error):
                raise refusal from error
            raise
