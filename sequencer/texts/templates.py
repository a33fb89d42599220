"""How a text is made of a template and fields. Pure.

| in a template | is |
| --- | --- |
| `{owner}` | the field; a group as words for a shell |
| `{value:value}` | what a caller gave, at most 200 characters |
| `{status:ending}` | how a process ended: `exit status 1` |
| `{count:message}`, `{lag_s:duration}`, `{until:moment}`, `{waits_s:.1f}` | `2 messages`, `12 min`, a time, a number |
| `{owner:? by {owner}}`, `{owner:! by nobody}` | the text, where the field has a value; where it has none |
| `{sequencer skip QUEUE GROUP --id ID}` | a line for a shell, with the fields that are in capitals |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from string import Formatter
from types import MappingProxyType
from typing import Any

from ..errors import shown
from .commands import line
from .words import duration, ending, many, moment, named, plain, quoted

Fields = Mapping[str, Any]
Wording = str | Callable[[Fields], str]
"""A template, or what chooses one."""
Commands = Mapping[str, str] | Callable[[Fields], Mapping[str, str]]
"""Templates by their purpose, or what chooses some."""
NO_COMMANDS: Commands = MappingProxyType({})


def _listed(items: Any) -> str:
    """`charge, ship`; of a mapping `charge (declined), ship`."""
    values = items if isinstance(items, Mapping) else dict.fromkeys(items)
    return ", ".join(f"{name} ({value})" if value else str(name) for name, value in values.items())


_SPECS: Mapping[str, Callable[[Any], str]] = {
    "duration": duration,
    "moment": moment,
    "list": _listed,
    "quoted": quoted,
    "ending": ending,
}


_FORMATTER = Formatter()


@lru_cache(maxsize=1024)
def _parsed(template: str) -> tuple[tuple[str, str | None, str | None, str | None], ...]:
    return tuple(_FORMATTER.parse(template))


def _filled(template: str, fields: Fields) -> str:
    found = list[str]()
    for text, name, spec, conversion in _parsed(template):
        found.append(text)
        if name is None:
            continue
        if name.startswith("sequencer "):
            found.append(line(name, fields))
            continue
        value = fields.get(name, "") if name.isidentifier() else _FORMATTER.get_field(name, (), fields)[0]
        found.append(_shown(_FORMATTER.convert_field(value, conversion) if conversion else value, spec or "", fields))
    return "".join(found)


def _shown(value: Any, spec: str, fields: Fields) -> str:
    if spec.startswith(("?", "!")):
        is_given = bool(value) or isinstance(value, float)
        return _filled(spec[1:], fields) if is_given == spec.startswith("?") else ""
    if spec == "value":
        return shown(value)
    if value is None or value == "":
        return ""
    if spec in _SPECS:
        return _SPECS[spec](value)
    if isinstance(value, list | tuple):
        return named(value)
    if len(spec) > 1 and spec.replace(" ", "").isalpha():
        return many(value, spec)
    return format(value, spec)


def fill(wording: Wording, fields: Fields) -> str:
    """A text from its template; a field that is missing is empty."""
    return plain(_filled(wording if isinstance(wording, str) else wording(fields), fields))


def filled_commands(commands: Commands, fields: Fields) -> dict[str, str]:
    """Purpose -> command: `sequencer ...`, or another text. Those that are empty are left out."""
    templates = commands(fields) if callable(commands) else commands
    texts = ((line if one.startswith("sequencer ") else fill)(one, fields) for one in templates.values())
    return {name: text for name, text in zip(templates, texts, strict=True) if text}
