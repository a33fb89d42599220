"""The file of `run`, for the commands that read it: how it is named, found and read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ..client import find_server
from ..processes.logs import LogOptions
from ..texts.commands import name_server

if TYPE_CHECKING:
    from ..processes.master.plan import RunPlan

FileArgument = Annotated[
    str | None, Argument(help="A TOML file. Default: the nearest sequencer.toml or pyproject.toml, here or above.")
]
NamespaceOfFileOption = Annotated[
    str | None, Option(envvar="SEQUENCER_NAMESPACE", help="Prefix of all keys; overrides the file's.")
]


def find(given: str | None) -> Path:
    """The file that is meant, from here. Raises ConfigurationError."""
    from ..processes.master.run_file import find_file  # it imports msgspec, which nothing else needs

    return find_file(given, Path.cwd())


def read_with_server(
    path: Path, log: LogOptions | None, redis: str | None = None, namespace: str | None = None
) -> RunPlan:
    """What it says, with the server that is meant. Raises ConfigurationError."""
    from ..processes.master.run_file import read_file

    plan = read_file(path, redis=redis, namespace=namespace, log=log)
    if plan.redis and redis is None:
        name_server(plan.redis)  # the file's own: no variable says it in the shell where lines are pasted
    return plan.on(find_server(plan.redis).url)
