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
from .drivers import Execute, opened, refusal_of, text_of


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """One part of an outbox."""

    queue: str
    part: int
    unsent: int
    oldest_s: float
    """The age of the oldest row that is not sent, 0.0 without one."""
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


class Operated:
    """An outbox as an operator sees it, over connections that this opens. Raises ServerError where the database can't
    be used, ConfigurationError where it has no tables.
    """

    def __init__(self, connect: Callable[[], Any], queue: str, *, parts: int = 1, prefix: str = "sequencer_") -> None:
        self._connect, self.queue, self.parts, self._prefix = connect, queue, parts, prefix

    def create(self) -> None:
        """Make the tables."""
        with self._transaction() as (texts, execute):
            for statement in texts.ddl():
                execute(statement, ())

    def status(self) -> list[OutboxStatus]:
        """Of each part."""
        return [self._status(part) for part in range(self.parts)]

    def backlog(self) -> OutboxBacklog:
        """What waits in all parts."""
        waiting = [self._rows(sql.WAITING, self.queue, part)[0] for part in range(self.parts)]
        held = sum(self._rows(sql.COUNT_HELD, self.queue, part)[0][0] for part in range(self.parts))
        return OutboxBacklog(sum(count for count, _ in waiting), max(float(age_s) for _, age_s in waiting), held)

    def held(self, limit: int = 100) -> list[HeldRow]:
        """Rows that the queue refused, the oldest of each part first."""
        found = [row for part in range(self.parts) for row in self._rows(sql.HELD, self.queue, part, limit)]
        return [HeldRow(decode_group(text_of(grp)), text_of(mid), error, age) for grp, mid, error, age in found[:limit]]

    def release(self, group: Group) -> int:
        """Send the held row of a group again, and what waits behind it; how many rows were held."""
        return self._count(sql.RELEASE, *self._of(group))

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
        ((unsent, oldest_s),) = self._rows(sql.WAITING, *mine)
        ((held,),) = self._rows(sql.COUNT_HELD, *mine)
        ((kept,),) = self._rows(sql.COUNT_KEPT, *mine)
        relay = self._rows(sql.SEEN, *mine)
        batch, seen_s = relay[0] if relay else (0, None)
        return OutboxStatus(*mine, unsent, float(oldest_s), held, kept, batch, seen_s)

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
