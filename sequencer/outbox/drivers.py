"""What a caller's connection is, and how it executes a statement: DB-API, SQLAlchemy and Django."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from ..errors import ConfigurationError
from .sql import Dialect

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
