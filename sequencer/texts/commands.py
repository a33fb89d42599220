"""Command lines that a text gives to people, to be run as they stand. Pure, but for what `name_server` keeps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .words import quoted

_named = [""]
OWNER = re.compile(r".+:(?P<pid>\d{1,10}):[0-9a-f]{6}")

ONLY_PYTHON = "(only from Python: a shell can't pass the NUL character in this name)"
VARIABLE = "$SEQUENCER_REDIS"
"""Stands for a URL with a password, which is never shown. Where the variable is not set, the line is refused."""


def name_server(url: str) -> None:
    """From here on the lines that this process gives name this server, or VARIABLE; "" names none.

    For a call or an application that named it: in a shell without that the same line would go to another server. One
    that a variable gave is expected to be there again.
    """
    has_password = "@" in url or "password=" in url.lower()  # also where it can't be read
    _named[0] = VARIABLE if has_password else url


def server_named() -> str:
    """The server that lines for a shell name, or VARIABLE, or ""."""
    return _named[0]


def command(name: str, *values: str, namespace: str = "sequencer", options: Sequence[str] = ()) -> str:
    """A line for a shell: `sequencer explain orders 1002 'a b'`; ONLY_PYTHON where no shell can carry the words.

    A shell ends a word at a NUL, so the line would be about another group or message.
    """
    if any("\0" in word for word in [*values, *options]):
        return ONLY_PYTHON
    words = [*map(quoted, [*options, *(["--namespace", namespace] if namespace != "sequencer" else [])])]
    if url := server_named():
        words += ["--redis", f'"{url}"' if url == VARIABLE else quoted(url)]
    is_mistakable, shown = any(value.startswith("-") for value in values), map(quoted, values)  # for an option
    words = [*words, "--", *shown] if is_mistakable else [*shown, *words]
    return " ".join(["sequencer", name, *words])


def line(template: str, fields: Mapping[str, Any]) -> str:
    """The command of a template: `sequencer dead redrive QUEUE GROUP --id ID`; a word in capitals is a field.

    An option is repeated for each value of a list.
    """
    name, values, options = list[str](), list[str](), list[str]()
    for word in template.split()[1:]:
        given = fields.get(word.lower(), word) if word.isupper() else word
        words = [*map(str, given)] if isinstance(given, list | tuple) else [str(given)]
        if options and word.isupper():
            option = options.pop()
            for each in words:  # one that begins with a hyphen would be taken for an option
                options += [f"{option}={each}"] if each.startswith("-") else [option, each]
        else:
            found = options if options or word.startswith("--") else values if values or word.isupper() else name
            found += words
    return command(" ".join(name), *values, namespace=fields.get("namespace", "sequencer"), options=options)


def doctor_of(server: str) -> str:
    """Template of the command that checks a server; one of which a part is not shown is left to SEQUENCER_REDIS."""
    is_whole = server.startswith(("unix://", "redis://", "valkey://")) and "***" not in server
    return "sequencer doctor --redis SERVER" if is_whole and not server_named() else "sequencer doctor"


def answer_commands(*, is_dead: bool) -> dict[str, str]:
    """Templates of the two commands that answer for steps. Each names the attempts, so that a late one is refused."""
    name = "dead redrive" if is_dead else "resume"
    return {one: f"sequencer {name} QUEUE GROUP --id ID --{one} STEPS --attempt RUNS" for one in ("done", "again")}


LABELS = {"done": "if it took effect", "again": "if it did not", "retry_same_error": "retry all of this error"}
"""How a text calls a command, where that is not its name."""


def with_commands(text: str, commands: Mapping[str, str]) -> str:
    """`...; inspect: sequencer explain orders 1002 / retry: sequencer resume orders 1002`."""
    shown = " / ".join(f"{LABELS.get(name) or name.replace('_', ' ')}: {line}" for name, line in commands.items())
    return f"{text}; {shown}" if shown else text


def end_command(owner: str) -> str:
    """The command that ends the process of a consumer, on its own host; "" for a name that is not one of ours."""
    found = OWNER.fullmatch(owner)
    return f"kill -KILL {found['pid']}" if found else ""
