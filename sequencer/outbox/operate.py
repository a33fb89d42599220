"""What an operator sees of an outbox, and does about it. Each function is a transaction of its own, and commits."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from zlib import crc32

from ..errors import MessageNotFound
from ..store.group import decode_group, encode_group
from ..store.item import Group
from ..values.pools import OutboxBacklog
from . import sql
from .drivers import Execute, opened, refusal_of, text_of

PAGE = 1000
"""Rows that one statement releases."""


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """One part of an outbox."""

    queue: str
    part: int
    unsent: int
    """Rows that are not sent; of these, and the next two, at most 100,000 are counted."""
    oldest_s: float
    """The age of the oldest of them, 0.0 without one."""
    held: int
    kept: int
    """Rows that were sent and are kept."""
    batch: int
    """The number of the last batch."""
    seen_s: float | None
    """Seconds since a relay wrote last; None before the first one."""


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A row that the queue refused. Later rows of its group wait for it."""

    group: tuple[str, ...]
    id: str
    error: str
    age_s: float

    def fits(self, error: str | None) -> bool:
        return error is None or error == self.error.partition(":")[0] or fnmatchcase(self.error, error)


class Operated:
    """An outbox as an operator sees it, over connections that this opens. Raises ServerError where the database can't
    be used, ConfigurationError where it has no tables.
    """

    def __init__(self, connect: Callable[[], Any], queue: str, *, parts: int = 1, prefix: str = "sequencer_") -> None:
        self._connect, self.queue, self.parts, self._prefix = connect, queue, parts, prefix

    def create(self) -> None:
        """Make the tables that are not there."""
        with self._transaction() as (texts, execute):
            for statement in texts.ddl():
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
        return [row for part in range(self.parts) for row in self._held(part, 0, limit).values()][:limit]

    def release(self, group: Group | None = None, error: str | None = None) -> int:
        """Send held rows again, and what waits behind them; how many there were. All, or those of a group, or with an
        error: its type, or a pattern with `*` for "Type: message".
        """
        wanted, count = None if group is None else decode_group(encode_group(group)), 0
        for part in range(self.parts):
            last = 0
            while found := self._held(part, last, PAGE):
                last = max(found)
                fits = [id for id, row in found.items() if wanted in (None, row.group) and row.fits(error)]
                count += self._count(sql.release(fits)) if fits else 0
        return count

    def skip(self, group: Group, id: str) -> None:
        """Drop a held row for good; its group goes on. Raises MessageNotFound."""
        if not self._count(sql.SKIP, *self._of(group), id):
            raise MessageNotFound("not_held", queue=self.queue, group=decode_group(encode_group(group)), id=id)

    def renew(self) -> None:
        """Go on under a new name after the database was restored: rows not known as sent are sent again, by id."""
        for part in range(self.parts):
            self._count(sql.RENEW, secrets.token_hex(8), self.queue, part)

    def _status(self, part: int) -> OutboxStatus:
        mine = self.queue, part
        with self._transaction() as (texts, execute):
            found = [list(execute(texts.text(one), mine).fetchall()) for one in (*sql.COUNTS, sql.OLDEST, sql.SEEN)]
        unsent, held, kept = (count for ((count,),) in found[:3])
        ((oldest_s,),), (relay,) = found[3] or [(0.0,)], found[4] or [(0, None)]
        return OutboxStatus(*mine, unsent, float(oldest_s), held, kept, *relay)

    def _held(self, part: int, after: int, limit: int) -> dict[int, HeldRow]:
        """By their ids."""
        found = self._rows(sql.HELD, self.queue, part, after, limit)
        return {id: HeldRow(decode_group(text_of(grp)), text_of(mid), *more) for id, grp, mid, *more in found}

    def _of(self, group: Group) -> tuple[str, int, str]:
        text = encode_group(group)
        return self.queue, crc32(text.encode()) % self.parts, text

    def _rows(self, text: str, *given: Any) -> list[Any]:
        return self._run(text, given)[1]

    def _count(self, text: str, *given: Any) -> int:
        return self._run(text, given)[0]

    def _run(self, text: str, given: tuple[Any, ...]) -> tuple[int, list[Any]]:
        with self._transaction() as (texts, execute):
            cursor = execute(texts.text(text), given)
            found = cursor.fetchall() if cursor.description else []
            return cursor.rowcount, list(found)

    @contextmanager
    def _transaction(self) -> Iterator[tuple[sql.Statements, Execute]]:
        try:
            with closing(self._connect()) as connection:
                dialect, execute = opened(connection)
                yield sql.Statements(dialect, self._prefix), execute
                connection.commit()
        except Exception as error:
            if refusal := refusal_of(error):
                raise refusal from error
            raise
