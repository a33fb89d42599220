"""How a text is made of a template and fields. Pure.

| in a template | is |
| --- | --- |
| `{owner}` | the field; a group as words for a shell |
| `{count:message}`, `{lag_s:duration}`, `{until:moment}`, `{waits_s:.1f}` | `2 messages`, `12 min`, a time, a number |
| `{owner:? by {owner}}`, `{owner:! by nobody}` | the text, where the field has a value; where it has none |
| `{sequencer skip QUEUE GROUP --id ID}` | a line for a shell, with the fields that are in capitals |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from types import MappingProxyType
from typing import Any

from .commands import line
from .words import duration, many, moment, named, plain, quoted

Fields = Mapping[str, Any]
Wording = str | Callable[[Fields], str]
"""A template, or what chooses one."""
Commands = Mapping[str, str] | Callable[[Fields], Mapping[str, str]]
"""Templates by their purpose, or what chooses some."""
NO_COMMANDS: Commands = MappingProxyType({})


def _listed(items: Any) -> str:
    """`charge, ship`; of a mapping `charge (declined), ship`."""
    values = items if isinstance(items, Mapping) else dict.fromkeys(items)
    return ", ".join(f"{name} ({value})" if value else name for name, value in values.items())


_SPECS: Mapping[str, Callable[[Any], str]] = {"duration": duration, "moment": moment, "list": _listed, "quoted": quoted}


class _Filler(Formatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if field_name.startswith("sequencer "):
            return line(field_name, kwargs), field_name
        return super().get_field(field_name, args, kwargs)

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key), "")

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec[:1] in ("?", "!"):
            is_given = bool(value) or isinstance(value, float)
            return format_spec[1:] if is_given == format_spec.startswith("?") else ""
        if value is None or value == "":
            return ""
        if format_spec in _SPECS:
            return _SPECS[format_spec](value)
        if isinstance(value, list | tuple):
            return named(value)
        if len(format_spec) > 1 and format_spec.replace(" ", "").isalpha():
            return many(value, format_spec)
        return str(super().format_field(value, format_spec))


_FILLER = _Filler()


def fill(wording: Wording, fields: Fields) -> str:
    """A text from its template; a field that is missing is empty."""
    return plain(_FILLER.vformat(wording if isinstance(wording, str) else wording(fields), (), fields))


def filled_commands(commands: Commands, fields: Fields) -> dict[str, str]:
    """Purpose -> command: `sequencer ...`, or another text. Those that are empty are left out."""
    templates = commands(fields) if callable(commands) else commands
    found = {
        name: line(template, fields) if template.startswith("sequencer ") else fill(template, fields)
        for name, template in templates.items()
    }
    return {name: text for name, text in found.items() if text}
