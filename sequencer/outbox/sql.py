"""Every statement, for PostgreSQL, MySQL with MariaDB, and SQLite. Pure.

`?` stands for a parameter, `{p}` for the prefix of the tables, `{now}` for the server's seconds since 1970.

- `outbox`, a row a message: `id` ascends within a group in the order of commits; `batch` is 0 where it is not assigned,
  -1 where it is held (`held`: why), else the number under which it is sent.
- `groups`, a row a group, for good: the lock on it puts the transactions of a group in order. SQLite has one writer.
- `relays`, a row a relay: `token` of its leader, and when that wrote last; `generation`, its name in Redis; `batch`,
  the last number assigned; `since`, the first one that may not be stored; `sent`, JSON: shard -> last number stored.
- `inbox`, a row a message that was handled. `fences`, a row a group, for good: the newest token that committed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

Dialect = Literal["postgresql", "mysql", "sqlite"]
DIALECTS: tuple[Dialect, ...] = ("postgresql", "mysql", "sqlite")


_WORDS: dict[Dialect, dict[str, str]] = {
    # `name` is compared byte by byte, and short enough for a key. `unsent`, of `batch`: for "= 0" PostgreSQL reads all
    # rows by their ids, also those that are kept, while its statistics say that most are not sent. `first`, before the
    # count of rows to delete: with it MySQL looks at those only, and not at rows that callers lock.
    "postgresql": {
        "serial": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "name": "text",
        "blob": "bytea",
        "after": "WITH (autovacuum_vacuum_scale_factor = 0.01)",
        "now": "extract(epoch FROM clock_timestamp())::double precision",
        "unsent": "BETWEEN 0 AND 0",
        "first": "--",
    },
    "mysql": {
        "serial": "bigint AUTO_INCREMENT PRIMARY KEY",
        "name": "varbinary(512)",
        "blob": "longblob",
        "after": "ENGINE = InnoDB DEFAULT CHARSET = utf8mb4",
        "now": "UNIX_TIMESTAMP(NOW(6))",
        "unsent": "= 0",
        "first": "ORDER BY id LIMIT",
    },
    "sqlite": {
        "serial": "integer PRIMARY KEY",
        "name": "text",
        "blob": "blob",
        "after": "WITHOUT ROWID",
        "now": "((julianday('now') - 2440587.5) * 86400.0)",
        "unsent": "= 0",
        "first": "--",
    },
}

_TABLES = {
    "groups": "queue {name} NOT NULL, grp {name} NOT NULL, PRIMARY KEY (queue, grp)",
    "outbox": "id {serial}, queue {name} NOT NULL, part smallint NOT NULL, grp {name} NOT NULL, mid {name} NOT NULL,"
    " score varchar(32) NOT NULL, envelope {blob} NOT NULL, due varchar(32) NOT NULL, ledger {blob} NOT NULL,"
    " at double precision NOT NULL, batch bigint NOT NULL, held text",
    "relays": "queue {name} NOT NULL, part smallint NOT NULL, token varchar(32) NOT NULL,"
    " seen double precision NOT NULL, generation varchar(32) NOT NULL, batch bigint NOT NULL, since bigint NOT NULL,"
    " sent text NOT NULL, PRIMARY KEY (queue, part)",
    "inbox": "queue {name} NOT NULL, grp {name} NOT NULL, mid {name} NOT NULL, at double precision NOT NULL,"
    " PRIMARY KEY (queue, grp, mid)",
    "fences": "queue {name} NOT NULL, grp {name} NOT NULL, token bigint NOT NULL, PRIMARY KEY (queue, grp)",
}
_INDEXES = {"outbox": ("batch", "queue, part, batch, id"), "inbox": ("at", "queue, at")}

_COLUMNS = "queue, grp, part, mid, score, envelope, due, ledger, at, batch"
_GIVEN = "?, ?, ?, ?, ?, ?, {now}, 0"
_INSERT = f"INSERT INTO {{p}}outbox ({_COLUMNS}) VALUES (?, ?, {_GIVEN})"
_APPEND: dict[Dialect, tuple[str, ...]] = {
    # The id is drawn after the lock on the group's row was taken: `waited` comes first. The row itself stays as it is,
    # so it leaves no dead ones, and a transaction with an older snapshot may lock it.
    "postgresql": (
        "WITH given (queue, grp) AS (VALUES (?, ?)), locked AS (INSERT INTO {p}groups SELECT * FROM given"
        " ON CONFLICT (queue, grp) DO UPDATE SET grp = excluded.grp WHERE false RETURNING 1)"
        f" INSERT INTO {{p}}outbox ({_COLUMNS}) SELECT queue, grp, {_GIVEN}"
        " FROM given, (SELECT count(*) FROM locked) AS waited",
    ),
    "mysql": ("INSERT INTO {p}groups (queue, grp) VALUES (?, ?) ON DUPLICATE KEY UPDATE grp = grp", _INSERT),
    "sqlite": (_INSERT,),
}

SESSION: dict[Dialect, tuple[str, ...]] = {
    # Of a relay's connection. One that is frozen within a transaction must not keep its locks.
    "postgresql": ("SET idle_in_transaction_session_timeout = 3000",),
    # Repeatable reads lock rows, and gaps, that a statement only passes: it would wait for the callers' transactions.
    "mysql": ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION idle_transaction_timeout = 3"),
    "sqlite": (),
}

MOST_COUNTED = 100_000
"""Rows of a kind: to count all would take a second for millions."""

LISTEN = "LISTEN {p}outbox"

# -- of the relay -----------------------------------------------------------------------------------------------
_MINE = "queue = ? AND part = ?"
_ROW = "id, grp, mid, score, envelope, due, ledger, batch"
RELAY = f"SELECT generation, batch, since, sent FROM {{p}}relays WHERE {_MINE}"
NEW_RELAY = (
    "INSERT INTO {p}relays (queue, part, token, seen, generation, batch, since, sent)"
    " VALUES (?, ?, '', 0, ?, 0, 1, '{{}}')"
)
LEAD = f"UPDATE {{p}}relays SET token = ?, seen = {{now}} WHERE {_MINE} AND (token IN (?, '') OR seen < {{now}} - ?)"
SAVE = f"UPDATE {{p}}relays SET batch = ?, since = ?, sent = ?, seen = {{now}} WHERE {_MINE} AND token = ?"
RESIGN = f"UPDATE {{p}}relays SET token = '' WHERE {_MINE} AND token = ?"
RENEW = f"UPDATE {{p}}relays SET generation = ?, sent = '{{{{}}}}', token = '' WHERE {_MINE}"
UNSENT = (
    f"SELECT {_ROW} FROM {{p}}outbox WHERE {_MINE} AND batch {{unsent}}"
    f" AND grp NOT IN (SELECT grp FROM {{p}}outbox WHERE {_MINE} AND batch = -1) ORDER BY batch, id LIMIT ?"
)
ASSIGNED = f"SELECT {_ROW} FROM {{p}}outbox WHERE {_MINE} AND batch >= ? ORDER BY batch, id"
AFTER = f"SELECT {_ROW} FROM {{p}}outbox WHERE {_MINE} AND batch > ? AND id > ? ORDER BY id LIMIT ?"
HOLD = "UPDATE {p}outbox SET batch = -1, held = ? WHERE id = ?"
KEPT = f"SELECT id FROM {{p}}outbox WHERE {_MINE} AND batch BETWEEN 1 AND ? ORDER BY batch, id LIMIT ?"
OLDEST = f"SELECT {{now}} - at FROM {{p}}outbox WHERE {_MINE} AND batch {{unsent}} ORDER BY batch, id LIMIT 1"
HELD = f"SELECT grp, mid, held, {{now}} - at FROM {{p}}outbox WHERE {_MINE} AND batch = -1 ORDER BY id LIMIT ?"
COUNTS = [
    f"SELECT count(*) FROM (SELECT 1 FROM {{p}}outbox WHERE {_MINE} AND batch {which} LIMIT {MOST_COUNTED}) AS found"
    for which in ("= 0", "= -1", "> 0")
]
"""Of unsent, held and kept rows."""
SEEN = f"SELECT CASE WHEN seen > 0 THEN {{now}} - seen END FROM {{p}}relays WHERE {_MINE}"
RELEASE = f"UPDATE {{p}}outbox SET batch = 0, held = NULL WHERE {_MINE} AND batch = -1"
SKIP = f"DELETE FROM {{p}}outbox WHERE {_MINE} AND batch = -1 AND grp = ? AND mid = ?"


# -- of the inbox -----------------------------------------------------------------------------------------------
FENCE: dict[Dialect, str] = {
    **dict.fromkeys(
        ("postgresql", "sqlite"),
        "INSERT INTO {p}fences (queue, grp, token) VALUES (?, ?, ?) ON CONFLICT (queue, grp)"
        " DO UPDATE SET token = excluded.token WHERE {p}fences.token < excluded.token",
    ),
    "mysql": "INSERT INTO {p}fences (queue, grp, token) VALUES (?, ?, ?)"
    " ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))",
}
_FENCED = "SELECT token FROM {p}fences WHERE queue = ? AND grp = ?"
FENCED: dict[Dialect, str] = {
    **dict.fromkeys(("postgresql", "sqlite"), _FENCED),
    "mysql": f"{_FENCED} FOR UPDATE",  # else it reads what was there when the transaction first read
}
FIRST: dict[Dialect, str] = {
    **dict.fromkeys(
        ("postgresql", "sqlite"),
        "INSERT INTO {p}inbox (queue, grp, mid, at) VALUES (?, ?, ?, {now}) ON CONFLICT DO NOTHING",
    ),
    "mysql": "INSERT IGNORE INTO {p}inbox (queue, grp, mid, at) VALUES (?, ?, ?, {now})",
}
DONE = "DELETE FROM {p}outbox WHERE id = ? AND queue = ? AND grp = ? AND mid = ?"  # SQLite may give an id again
# PostgreSQL uses the index for a time that a query of its own says.
OLD = "SELECT at FROM {p}inbox WHERE queue = ? AND at < (SELECT {now} - ?) ORDER BY at LIMIT ?"
FORGET = "DELETE FROM {p}inbox WHERE queue = ? AND at <= ?"


def batches(ranges: list[tuple[int, list[int]]]) -> str:
    """The statement that gives each of these rows, ascending, the number of its batch."""
    cases = " ".join(f"WHEN id IN ({_list(ids)}) THEN {number}" for number, ids in ranges[1:])
    number, every = ranges[0][0], [row for _, ids in ranges for row in ids]
    what = f"CASE {cases} ELSE {number} END" if cases else str(number)
    return f"UPDATE {{p}}outbox SET batch = {what} WHERE id IN ({_list(every)})"


def deletion(ids: list[int]) -> str:
    return f"DELETE FROM {{p}}outbox WHERE id IN ({_list(ids)}) {{first}} {len(ids)}"


def _list(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


def text(statement: str, dialect: Dialect, prefix: str) -> str:
    return statement.format(p=prefix, **_WORDS[dialect])


def ddl(dialect: Dialect, prefix: str) -> list[str]:
    """What makes the tables that are not there."""
    found = list[str]()
    for name, columns in _TABLES.items():
        index, indexed = _INDEXES.get(name, ("", ""))
        inside = f", INDEX ({indexed})" if indexed and dialect == "mysql" else ""
        after = "" if (name, dialect) == ("outbox", "sqlite") else " {after}"
        if (name, dialect) != ("groups", "sqlite"):
            found.append(f"CREATE TABLE IF NOT EXISTS {{p}}{name} ({columns}{inside}){after}")
        if indexed and not inside:
            found.append(f"CREATE INDEX IF NOT EXISTS {{p}}{name}_{index} ON {{p}}{name} ({indexed})")
    return [text(one, dialect, prefix) for one in found]


@lru_cache
def appending(dialect: Dialect, prefix: str) -> tuple[str, ...]:
    """The statements of an append: locks, with queue and group, then the insert."""
    return tuple(text(one, dialect, prefix) for one in _APPEND[dialect])
