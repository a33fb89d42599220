"""`sequencer server`: the embedded server, and a cluster of such servers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..server import EmbeddedServer, ServerStatus
from ..server.cluster import EmbeddedCluster
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


ClusterOption = Annotated[
    int | None, typer.Option(min=1, max=100, help="Start a Redis Cluster of that many primaries instead, on 127.0.0.1")
]


@server.command()
def start(directory: DirectoryOption = None, cluster: ClusterOption = None, json: JsonOption = False) -> int:
    """Start the server, or a cluster, unless it is running; it runs until stopped."""
    if cluster is None:
        embedded = EmbeddedServer(directory)
        is_started = embedded.start()
        url, value = embedded.url, as_json(embedded.status())
    else:
        nodes = EmbeddedCluster(directory, cluster)
        is_started = nodes.start()
        url, value = nodes.url, _cluster_json(nodes)
    text = f"{'started' if is_started else 'already running'}: {url}"
    return Answer({"started": is_started, **value}, text).show(json)


@server.command()
def stop(directory: DirectoryOption = None, json: JsonOption = False) -> int:
    """Stop the server and the cluster; their data is kept."""
    embedded, nodes = EmbeddedServer(directory), EmbeddedCluster(directory)
    is_stopped = any([embedded.stop(), nodes.stop()])
    value = {"stopped": is_stopped, **as_json(embedded.status())}
    return Answer(value, "stopped" if is_stopped else "was not running").show(json)


@server.command()
def status(directory: DirectoryOption = None, json: JsonOption = False) -> int:
    """Show whether the server or a cluster is running, and where."""
    found, nodes = EmbeddedServer(directory).status(), EmbeddedCluster(directory)
    if not nodes.ports:
        return Answer(found, _text(found)).show(json)
    value = {**as_json(found), "cluster": _cluster_json(nodes)}
    texts = [_text(node) for node in nodes.status()]
    return Answer(value, "\n".join([_text(found), f"cluster: {nodes.url}", *texts])).show(json)


def _cluster_json(nodes: EmbeddedCluster) -> dict[str, Any]:
    return {"url": nodes.url, "nodes": as_json(nodes.status())}


def _text(found: ServerStatus) -> str:
    if not found.is_running:
        return f"not running; data in {found.directory}"
    memory = f"{(found.memory_bytes or 0) / 1e6:.1f} MB"
    return f"running: {found.version}, pid {found.pid}, up {duration(found.uptime_s or 0)}, {memory}, {found.url}"
