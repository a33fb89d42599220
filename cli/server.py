"""`sequencer server`: the embedded server."""

from __future__ import annotations

from typing import Annotated

import typer

from ..server import EmbeddedServer
from ..texts.words import duration
from ..values.views import as_json
from .app import JsonOption, app
from .output import Answer

server = typer.Typer(
    help="The embedded server: start, stop, status.", no_args_is_help=True, rich_markup_mode="markdown"
)
app.add_typer(server, name="server")

DirectoryOption = Annotated[
    str | None, typer.Option(envvar="SEQUENCER_HOME", help="Directory of its data. Default: ~/.local/state/sequencer")
]


@server.command()
def start(directory: DirectoryOption = None, json: JsonOption = False) -> int:
    """Start the server unless it is running; it runs until stopped."""
    embedded = EmbeddedServer(directory)
    is_started = embedded.start()
    text = f"{'started' if is_started else 'already running'}: {embedded.url}"
    return Answer({"started": is_started, **as_json(embedded.status())}, text).show(json)


@server.command()
def stop(directory: DirectoryOption = None, json: JsonOption = False) -> int:
    """Stop the server; its data is kept."""
    embedded = EmbeddedServer(directory)
    is_stopped = embedded.stop()
    value = {"stopped": is_stopped, **as_json(embedded.status())}
    return Answer(value, "stopped" if is_stopped else "was not running").show(json)


@server.command()
def status(directory: DirectoryOption = None, json: JsonOption = False) -> int:
    """Show whether the server is running, and where."""
    found = EmbeddedServer(directory).status()
    text = f"not running; data in {found.directory}"
    if found.is_running:
        memory = f"{(found.memory_bytes or 0) / 1e6:.1f} MB"
        text = f"running: {found.version}, pid {found.pid}, up {duration(found.uptime_s or 0)}, {memory}, {found.url}"
    return Answer(found, text).show(json)
