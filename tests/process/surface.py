"""The public surface as lines of text: names and signatures, commands, exit codes, rights, events.

`test_surface.py` compares them with `surface.json`. After a change that is meant: `python -m tests.process.surface`
writes the file anew, and its difference belongs into the commit.

No line says in which module a thing is, so that moving one changes nothing. What is imported here from inside the
package may move; the imports follow, the lines stay.
"""

from __future__ import annotations

import difflib
import json
import logging
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

import sequencer
import sequencer.errors
import sequencer.testing
import sequencer.values
from sequencer.cli import app as command_line
from sequencer.cli.main import import_commands
from sequencer.consume.threads import Consumer
from sequencer.doctor.rights import WORDS, acl_rules
from sequencer.net.endpoint import Endpoint
from sequencer.processes.worker import run as consumer_process
from sequencer.server import ServerStatus
from sequencer.settings.events import EVENTS, FIELDS
from sequencer.settings.options import ClaimLimits, ConsumerOptions

from .signatures import Names, type_text

GOLDEN = Path(__file__).with_suffix(".json")
REWRITE = "python -m tests.process.surface"
REACHED = (ClaimLimits, Consumer, ConsumerOptions, Endpoint, ServerStatus)
"""Classes that nobody exports, and that public signatures name."""
COMPLETION = ("install_completion", "show_completion")
"""Options that typer adds; which, depends on its version."""

Surface = dict[str, list[str]]


def surface() -> Surface:
    """The whole surface as it is now: a list of lines for each part."""
    import_commands()
    names, values = Names(), sorted({*sequencer.values.__all__} - {*sequencer.__all__})
    return {
        "names": [
            *names.lines("", {name: getattr(sequencer, name) for name in sequencer.__all__}),
            *names.lines("errors.", {name: getattr(sequencer.errors, name) for name in sequencer.errors.__all__}),
            *names.lines("testing.", {name: getattr(sequencer.testing, name) for name in sequencer.testing.__all__}),
            *names.lines("values.", {name: getattr(sequencer.values, name) for name in values}),
        ],
        "reached": list(names.lines("", {kind.__name__: kind for kind in REACHED})),
        "types": [f"{name} = {names.types[name]}" for name in sorted(names.types)],
        "commands": list(commands(typer.main.get_command(command_line.app), "sequencer")),
        "exit codes": list(exit_codes()),
        "rights": list(rights()),
        "events": list(events()),
    }


def differences(before: Surface, now: Surface) -> list[str]:
    """The lines of a unified diff; empty when both are the same."""
    old, new = ([f"{part}: {line}" for part, lines in one.items() for line in lines] for one in (before, now))
    found = difflib.unified_diff(old, new, GOLDEN.name, "the code", lineterm="", n=0)
    return [line for line in found if not line.startswith("@@")]


def read() -> Surface:
    golden: Surface = json.loads(GOLDEN.read_text())
    return golden


def write() -> None:
    GOLDEN.write_text(json.dumps(surface(), indent=1, ensure_ascii=False) + "\n")


# -- commands, exit codes, rights, events -----------------------------------------------------------------------


def commands(command: Any, name: str) -> Iterator[str]:
    """What `--help` says of a command and of those below it, sorted: their order follows the imports."""
    yield f"{name}: {_words(command.help)}"
    if command.epilog:
        yield f"{name} ends with: {_words(command.epilog)}"
    hints = typing.get_type_hints(command.callback) if command.callback else {}
    for one in command.params:
        if one.name not in COMPLETION:
            yield f"{name} {_option(one, hints.get(one.name))}"
    for below, inner in sorted(getattr(command, "commands", {}).items()):
        yield from commands(inner, f"{name} {below}")


def _option(one: Any, hint: Any) -> str:
    is_option = one.opts[0].startswith("-")
    names = "/".join([*one.opts, *one.secondary_opts]) if is_option else (one.metavar or one.name.upper())
    facts = [_choices(hint)]
    holder = one if hasattr(one, "min") else one.type  # before typer 0.26, which has no click beside it
    bounds = (getattr(holder, "min", None), getattr(holder, "max", None))
    facts += [f"{word} {bound}" for word, bound in zip(("from", "to"), bounds, strict=True) if bound is not None]
    facts += ["required"] if one.required else []
    facts += [f"shown as {one.metavar}"] if is_option and one.metavar else []
    default = one.default.value if isinstance(one.default, Enum) else one.default
    facts += [] if one.required or default is None else [f"default {default!r}"]
    facts += [f"variable {one.envvar}"] if one.envvar else []
    facts += ["hidden"] if one.hidden else []
    return f"{names} ({', '.join(facts)}): {_words(one.help)}"


def _choices(hint: Any) -> str:
    """The type of an option; of one that chooses, what there is, whether an enum or a Literal says so."""
    kinds = [one for one in typing.get_args(hint) if one is not type(None)]
    inner = kinds[0] if type(None) in typing.get_args(hint) and len(kinds) == 1 else hint
    if isinstance(inner, type) and issubclass(inner, Enum):
        return " | ".join(str(one.value) for one in inner)
    if typing.get_origin(inner) is typing.Literal:
        return " | ".join(map(str, typing.get_args(inner)))
    return type_text(inner)


def _words(text: str | None) -> str:
    return " ".join((text or "").split())


def exit_codes() -> Iterator[str]:
    """Of the command line, of a consumer, and what the supervisor makes of that."""
    for who, module in (("command line", command_line), ("consumer", consumer_process)):
        numbers = {name: value for name, value in vars(module).items() if name.isupper() and type(value) is int}
        yield from (f"{who} {name} = {value}" for name, value in sorted(numbers.items(), key=lambda one: one[1]))
    # `numbers` are the consumer's: its own statuses have one name each.
    names = {value: name for name, value in numbers.items()}
    for status, becomes in sorted(consumer_process.EXIT_BY_ENDING.items()):
        yield f"supervisor, when a consumer ends with {names[status]} = {becomes}"
    yield f"no death of a consumer: {', '.join(names[status] for status in sorted(consumer_process.PLANNED))}"


def rights() -> Iterator[str]:
    """Key patterns of each role, and each command with the roles that have it."""
    roles: dict[str, list[str]] = {}
    for role in WORDS:
        for queue in (None, "jobs"):
            keys = [word for word in acl_rules("shop", role, queue) if not word.startswith("+")]
            yield f"{role}, {queue or 'every queue'}: {' '.join(keys)}"
        for word in acl_rules("shop", role):
            if word.startswith("+"):
                roles.setdefault(word, []).append(role)
    yield from (f"{word}: {', '.join(roles[word])}" for word in sorted(roles))


def events() -> Iterator[str]:
    """Each event with its level and fields, and each field with its meaning."""
    for name, kind in sorted(EVENTS.items()):
        observed = ", observed" if kind.is_observed else ""
        yield f"{name} ({logging.getLevelName(kind.level)}{observed}): {', '.join(kind.fields)}"
    yield from (f"field {name}: {meaning}" for name, meaning in sorted(FIELDS.items()))


if __name__ == "__main__":
    write()
