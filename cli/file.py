"""The file of `run`, for the commands that read it: how it is named, found and read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..client import find_server
from ..processes.logs import LogOptions
from ..texts.commands import name_server
from .app import option

if TYPE_CHECKING:
    from ..processes.master.plan import RunPlan

FileArgument = Annotated[
    str | None,
    typer.Argument(
        help="A TOML file. Default: the nearest sequencer.toml or pyproject.toml, here or above.", show_default=False
    ),
]
NamespaceOfFileOption = Annotated[
    str | None, option("--namespace", help="Prefix of all keys; overrides the file's.", show_default=False)
]


def find(given: str | None) -> Path:
    """The file that is meant, from here. Raises ConfigurationError."""
    from ..processes.master.run_file import find_file  # it imports msgspec, which nothing else needs

    return find_file(given, Path.cwd())


def read(path: Path, log: LogOptions | None, redis: str | None = None, namespace: str | None = None) -> RunPlan:
    """What it says. Raises ConfigurationError."""
    from ..processes.master.run_file import read_file

    return read_file(path, redis=redis, namespace=namespace, log=log)


def read_with_server(
    path: Path, log: LogOptions | None, redis: str | None = None, namespace: str | None = None
) -> RunPlan:
    """The same, with the server that is meant. Raises ConfigurationError."""
    plan = read(path, log, redis, namespace)
    if plan.url and redis is None:
        name_server(plan.url)  # the file's own: no variable says it in the shell where lines are pasted
    return plan.on(find_server(plan.url).url)
