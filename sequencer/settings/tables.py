"""Values in a TOML file. A secret comes from a variable: `env:NAME`; its value is in no sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigurationError, SequencerError
from ..texts.words import error_text, type_name

SECRET = "env:"
_VARIABLE = re.compile(r"[A-Za-z_]\w*\Z")


@contextmanager
def located(place: str) -> Iterator[None]:
    """Within, what is wrong is said with its place in the file. Raises ConfigurationError."""
    try:
        yield
    except SequencerError as error:
        raise ConfigurationError(f"{place}: {error}") from error
    except Exception as error:  # whatever a parser or the system raises at odd values
        what = error.strerror if isinstance(error, OSError) else None
        what = what or f"{type_name(error)}: {error_text(error)}"
        raise ConfigurationError(f"{place}: can't be read: {what}") from error


def table_of(name: str, value: Any) -> Mapping[str, Any]:
    """A table of the file; an empty one for None, where it has none. Raises ConfigurationError."""
    if not isinstance(value, dict | None):
        raise ConfigurationError(f"{name} must be a table")
    return value or {}


def value_of(name: str, text: str) -> str:
    """A value, or that of the variable which it names. Raises ConfigurationError."""
    if not text.startswith(SECRET):
        return text
    variable = text.removeprefix(SECRET)
    if not _VARIABLE.match(variable):
        raise ConfigurationError(f"{name} names no variable; write {SECRET}NAME")
    if variable not in os.environ:
        raise ConfigurationError(f"{name}: the variable {variable} is not set")
    return os.environ[variable]


def variables_in(table: Any) -> frozenset[str]:
    """The variables that a table names by `env:NAME`, wherever in it."""
    if isinstance(table, str):
        name = table.removeprefix(SECRET)
        return frozenset([name] if table.startswith(SECRET) and _VARIABLE.match(name) else [])
    inside = table.values() if isinstance(table, Mapping) else table if isinstance(table, list) else ()
    return frozenset[str]().union(*map(variables_in, inside))
