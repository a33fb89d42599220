"""`sequencer server`: the embedded server."""

from __future__ import annotations

from typing import Annotated

import typer

from ..server import EmbeddedServer
from ..values.views import as_json
from .app import JsonOption, app, option
from .render import print_json, seconds

server = typer.Typer(
    help="The embedded server: start, stop, status.", no_args_is_help=True, rich_markup_mode="markdown"
)
app.add_typer(server, name="server")

DirectoryOption = Annotated[
    str | None,
    option("--directory", help="Directory of its data. Default: ~/.local/state/sequencer"),
]


@server.command()
def start(directory: DirectoryOption = None, json: JsonOption = False) -> None:
    """Start the server unless it is running; it runs until stopped."""
    embedded = EmbeddedServer(directory)
    is_started = embedded.start()
    if json:
        print_json({"started": is_started, **as_json(embedded.status())})
    else:
        typer.echo(f"{'started' if is_started else 'already running'}: {embedded.url}")


@server.command()
def stop(directory: DirectoryOption = None, json: JsonOption = False) -> None:
    """Stop the server; its data is kept."""
    embedded = EmbeddedServer(directory)
    is_stopped = embedded.stop()
    if json:
        print_json({"stopped": is_stopped, **as_json(embedded.status())})
    else:
        typer.echo("stopped" if is_stopped else "was not running")


@server.command()
def status(directory: DirectoryOption = None, json: JsonOption = False) -> None:
    """Show whether the server is running, and where."""
    found = EmbeddedServer(directory).status()
    if json:
        print_json(found)
    elif found.is_running:
        typer.echo(
            f"running: {found.version}, pid {found.pid}, up {seconds(found.uptime_s)}, "
            f"{(found.memory_bytes or 0) / 1e6:.1f} MB, {found.url}"
        )
    else:
        typer.echo(f"not running; data in {found.directory}")
