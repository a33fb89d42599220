"""What a caller's connection is, and how it executes a statement: DB-API, SQLAlchemy and Django."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any
from urllib.parse import unquote, urlsplit

from ..errors import ConfigurationError, SequencerError, ServerError
from ..texts.words import error_text
from .sql import Dialect, text

_BY_MODULE: dict[str, Dialect] = {
    **dict.fromkeys(("psycopg", "psycopg2", "pg8000"), "postgresql"),
    **dict.fromkeys(("pymysql", "MySQLdb", "mysql", "mariadb"), "mysql"),
    "sqlite3": "sqlite",
}
_BY_NAME: dict[str, Dialect] = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql", "sqlite": "sqlite"}
Execute = Callable[[str, Sequence[Any]], Any]
"""Runs a statement with `?` for its parameters, and returns a cursor: `fetchall`, `rowcount`."""


def opened(connection: Any) -> tuple[Dialect, Execute]:
    """The dialect of a connection, cursor, SQLAlchemy connection or session, or Django connection. Raises
    ConfigurationError.
    """
    if hasattr(connection, "exec_driver_sql") or hasattr(connection, "get_bind"):  # SQLAlchemy
        one = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
        style = one.dialect.paramstyle
        return _named(one.dialect.name), lambda sql, given: one.exec_driver_sql(marked(sql, style), tuple(given))
    if hasattr(connection, "vendor"):  # Django, whose cursors take "%s" for every database
        return _named(connection.vendor), _of_cursors(connection.cursor, "format")
    modules = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    for module in modules & _BY_MODULE.keys():
        style = "qmark" if module in ("sqlite3", "mariadb") else "format"
        make = connection.cursor if hasattr(connection, "cursor") else lambda: connection
        return _BY_MODULE[module], _of_cursors(make, style)
    raise ConfigurationError("connection_unknown", type=f"{type(connection).__module__}.{type(connection).__name__}")


def with_tables(connection: Any, prefix: str) -> tuple[Dialect, Execute]:
    """As `opened`, for statements of sql.py and tables with this prefix."""
    dialect, execute = opened(connection)
    return dialect, lambda statement, given: execute(text(statement, dialect, prefix), given)


def _named(name: str) -> Dialect:
    if name not in _BY_NAME:
        raise ConfigurationError("connection_unknown", type=name)
    return _BY_NAME[name]


def _of_cursors(make: Callable[[], Any], style: str) -> Execute:
    def execute(sql: str, given: Sequence[Any]) -> Any:
        cursor = make()
        cursor.execute(marked(sql, style), tuple(given))
        return cursor

    return execute


def refusal_of(error: BaseException) -> SequencerError | None:
    """What to say of an error of a driver; None for any other."""
    kinds = type(error).__mro__
    if not any(kind.__name__ == "Error" and kind.__module__.partition(".")[0] in _BY_MODULE for kind in kinds):
        return None
    is_missing = kinds[0].__name__ == "UndefinedTable" or 1146 in error.args[:1] or "no such table" in str(error)
    if is_missing:
        return ConfigurationError("outbox_missing")
    return ServerError("database_failed", error=error_text(error))


def text_of(value: Any) -> str:
    """A text as a driver returns it: MySQL has those that are compared byte by byte as bytes."""
    return value if isinstance(value, str) else bytes(value).decode()


def marked(sql: str, style: str) -> str:
    """The statement with the marks that a driver takes: PEP 249's names, and "numeric_dollar" of asyncpg."""
    if style == "qmark":
        return sql
    if style in ("format", "pyformat"):
        return sql.replace("?", "%s")
    if style == "numeric_dollar":
        numbers = count(1)
        return "".join(f"${next(numbers)}" if char == "?" else char for char in sql)
    raise ConfigurationError("connection_unknown", type=f"paramstyle {style}")


def connector(url: str) -> Callable[[], Any]:
    """What opens connections to a database: `postgresql://user:password@host/db` by psycopg or psycopg2,
    `mysql://user:password@host:3306/db` by PyMySQL or mysqlclient, `sqlite:///file`. Raises ConfigurationError.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.partition("+")[0]
    if scheme == "sqlite" and parts.path[1:]:
        return lambda: sqlite3.connect(parts.path[1:], timeout=5.0)
    if scheme in ("postgresql", "postgres"):
        driver = _imported(url, "psycopg", "psycopg2")
        plain = f"postgresql{url[len(parts.scheme) :]}"
        return lambda: driver.connect(plain)
    if scheme in ("mysql", "mariadb"):
        driver = _imported(url, "pymysql", "MySQLdb")
        given = {"host": parts.hostname or "localhost", "port": parts.port or 3306, "database": parts.path[1:]}
        user = {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
        return lambda: driver.connect(**given, **user, charset="utf8mb4")
    raise ConfigurationError("database_unsupported", scheme=parts.scheme)


def _imported(url: str, *names: str) -> Any:
    for name in names:
        with suppress(ImportError):
            return importlib.import_module(name)
    raise ConfigurationError("driver_missing", scheme=urlsplit(url).scheme, drivers=names)
