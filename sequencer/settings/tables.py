"""Tables of a TOML file, read strictly: what is wrong is one sentence, with the name, its value and the nearest name.

A secret comes from a variable: `env:NAME`; its value is in no sentence. Only the file of
`run`, with its alerts and targets, is read by this: nothing else imports msgspec.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

from ..errors import ConfigurationError, shown
from ..values.checks import nearest
from ..values.durations import EXPECTED

SECRET = "env:"
KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
"""What msgspec calls them, in words."""
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")
_WRONG = re.compile(r"Expected `([^`]+)`, got `([^`]+)` - at `\$\.([A-Za-z_]+)(.*)`")
_VARIABLE = re.compile(r"[A-Za-z_]\w*\Z")
TableT = TypeVar("TableT", bound=msgspec.Struct)


def converted(
    table: Mapping[str, Any], kind: type[TableT], *, unnamed: Collection[str] = (), secret: Collection[str] = ()
) -> TableT:
    """The table as a Struct. Raises ConfigurationError.

    `unnamed`: words that are not proposed in place of a wrong one. `secret`: words whose values are not shown.
    """
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(_sentence(str(error), kind, table, unnamed, secret)) from error


def _sentence(
    said: str, kind: type[msgspec.Struct], table: Mapping[str, Any], unnamed: Collection[str], secret: Collection[str]
) -> str:
    """What msgspec found, in our words."""
    unknown = _UNKNOWN.search(said)
    if unknown:
        names = [name for name in kind.__struct_fields__ if name not in unnamed]
        return f"there is no {unknown[1]!r}; {nearest(unknown[1], names)}"
    found = _WRONG.match(said)
    if found is None:
        return said
    is_duration = {"float", "str"} <= {*found[1].split(" | ")}
    wanted, got, name = found[1].partition(" | ")[0], found[2], found[3]
    value = table.get(name)
    if found[4]:  # inside of a list or a table, which may hold secrets
        return f"{name}: each value must be {KINDS.get(wanted, wanted)}, not {KINDS.get(got, got)}"
    is_shown = name not in secret
    named = f"{name}={shown(value)}" if is_shown else name
    return f"{named} must be {EXPECTED if is_duration else KINDS.get(wanted, wanted)}, not {KINDS.get(got, got)}"


def value_of(name: str, text: str) -> str:
    """A value, or that of the variable which it names. Raises ConfigurationError."""
    if not text.startswith(SECRET):
        return text
    variable = text.removeprefix(SECRET)
    if not _VARIABLE.match(variable):
        raise ConfigurationError(f"{name} names no variable, as in {SECRET}NAME")
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
