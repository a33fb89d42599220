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
    """Errors raised within get this place in the file; what is not ours becomes a ConfigurationError."""
    try:
        yield
    except SequencerError as error:
        error.fields = {**error.fields, "place": [place, *error.fields.get("place", ())]}
        raise
    except Exception as error:  # whatever a parser or the system raises at odd values
        reason = error.strerror if isinstance(error, OSError) else None
        reason = reason or f"{type_name(error)}: {error_text(error)}"
        raise ConfigurationError("file_unreadable", reason=reason, place=[place]) from error


def table_of(name: str, value: Any) -> Mapping[str, Any]:
    """A table of the file; an empty one for None, where it has none. Raises ConfigurationError."""
    if not isinstance(value, dict | None):
        raise ConfigurationError("table_expected", name=name)
    return value or {}


def value_of(name: str, text: str) -> str:
    """A value, or that of the variable which it names. Raises ConfigurationError."""
    if not text.startswith(SECRET):
        return text
    variable = text.removeprefix(SECRET)
    if not _VARIABLE.match(variable):
        raise ConfigurationError("variable_name_invalid", name=name)
    if variable not in os.environ:
        raise ConfigurationError("variable_missing", name=name, variable=variable)
    return os.environ[variable]


def variables_in(table: Any) -> frozenset[str]:
    """The variables that a table names by `env:NAME`, wherever in it."""
    if isinstance(table, str):
        name = table.removeprefix(SECRET)
        return frozenset([name] if table.startswith(SECRET) and _VARIABLE.match(name) else [])
    inside = table.values() if isinstance(table, Mapping) else table if isinstance(table, list) else ()
    return frozenset[str]().union(*map(variables_in, inside))
