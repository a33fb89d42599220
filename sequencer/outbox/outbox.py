"""Outbox: appends in the caller's transaction. A relay sends what was committed to the queue."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any
from zlib import crc32

from ..settings.options import MAX_PARTS, queue_options
from ..store.item import Group, Id, Item, ItemMaker, Score
from ..values.checks import check_choice, check_integer
from ..values.durations import Duration
from ..values.json_input import ARGUMENTS
from .drivers import marked, opened
from .sql import DIALECTS, Dialect, appending, ddl

Statement = tuple[str, tuple[Any, ...]]
"""SQL, and its parameters."""


class Outbox:
    """Messages for one queue, kept in a table of the business database until a relay has sent them.

    `group_by`, `id_by`, `score_by` and `max_body_bytes` as of a Sequencer: what the queue would refuse is refused here,
    before the commit. `parts`: how many relays share the work, each its groups; change it only when no row waits.
    Threads may share it. Raises ConfigurationError.
    """

    def __init__(self, queue: str, *, parts: int = 1, prefix: str = "sequencer_", **settings: Any) -> None:
        self.options = queue_options(queue, settings.pop("namespace", "sequencer"), settings)
        check_integer("parts", parts, 1, MAX_PARTS)
        self.queue, self.parts, self._prefix = queue, parts, prefix
        self._items = ItemMaker(self.options)

    def append(
        self,
        connection: Any,
        body: Any,
        group: Group | None = None,
        *,
        id: Id | None = None,
        score: Score | None = None,
        headers: Mapping[str, str] | None = None,
        delay: Duration | None = None,
        at: Score | None = None,
        done: Mapping[str, Any] | None = None,
    ) -> str:
        """Add one message in the transaction of this connection, and return its id; the caller commits.

        `connection`: of a DB-API driver (psycopg, PyMySQL, sqlite3 ...), a cursor, a SQLAlchemy connection or session,
        or a Django connection. The others as of Sequencer.append; `delay` counts from now. Transactions that append to
        one group wait for each other, and commit in the order of their messages. Raises InvalidMessage, and what the
        driver raises: after a deadlock, or a serialization failure, repeat the transaction.
        """
        item = self._items.make(body, group, id, score, headers, delay, at, done, is_sequence=False)
        dialect, execute = opened(connection)
        for sql, given in self._statements(dialect, item):
            execute(sql, given)
        return item.id

    def append_many(self, connection: Any, items: Iterable[Any]) -> list[str]:
        """Add messages, given as to Sequencer.append_many, and return their ids. Groups are locked in one order, so two
        calls do not deadlock. Raises as `append`; then the caller rolls back.
        """
        made = [self._items.make_of(item, is_sequence=False) for item in items]
        dialect, execute = opened(connection)
        for item in sorted(made, key=attrgetter("group")):
            for sql, given in self._statements(dialect, item):
                execute(sql, given)
        return [item.id for item in made]

    def statements(self, dialect: Dialect, style: str, body: Any, **arguments: Any) -> list[Statement]:
        """What `append` would execute, for an async driver: each statement with its parameters.

        `style`: "qmark", "format" or "numeric_dollar" (asyncpg). `arguments` as of `append`.
        """
        item = self._items.make(body, *map(arguments.get, ARGUMENTS[1:]), is_sequence=False)
        check_choice("dialect", dialect, DIALECTS)
        return [(marked(sql, style), given) for sql, given in self._statements(dialect, item)]

    def ddl(self, dialect: Dialect) -> list[str]:
        """The statements that make the tables."""
        check_choice("dialect", dialect, DIALECTS)
        return ddl(dialect, self._prefix)

    def _statements(self, dialect: Dialect, item: Item) -> list[Statement]:
        part = crc32(item.group.encode()) % self.parts
        given = self.queue, item.group, part, item.id, item.score, item.envelope, _absolute(item.due), item.ledger
        *locks, insert = appending(dialect, self._prefix)
        return [*[(lock, given[:2]) for lock in locks], (insert, given)]


def _absolute(due: str) -> str:
    """When a message is due, for a relay that sends it at any time: a delay counts from now."""
    if not due.startswith("+"):
        return due
    number = due[1:].rstrip("mus")
    return f"{time.time_ns() // 1000 + int(number)}{due[1 + len(number) :]}"
