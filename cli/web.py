"""`sequencer web`: the dashboard."""

from __future__ import annotations

import os
import secrets
import socket
from typing import Annotated

import typer
from typer import Option

from ..client import find_server
from ..errors import ConfigurationError
from ..texts.answers import answer_text
from ..values.checks import check_name
from .app import NamespaceOption, RedisOption, app
from .output import FINE, say

TOKEN, APPEND_TOKEN = "SEQUENCER_WEB_TOKEN", "SEQUENCER_WEB_APPEND_TOKEN"
STOP_S = 3
"""How long an end waits for answers that are on their way."""


@app.command()
def web(
    queues: Annotated[list[str] | None, Option("--queue", metavar="NAME", help="Only this queue; repeatable.")] = None,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 8080,
    read_only: Annotated[bool, Option("--read-only", help="Nobody may change anything.")] = False,
    allow_host: Annotated[
        list[str] | None, Option(metavar="NAME", help="A host name under which it is reached; repeatable.")
    ] = None,
    redis: RedisOption = None,
    namespace: NamespaceOption = "sequencer",
) -> int:
    """Serve the dashboard: queues, why a group waits, and buttons that fix it.

    Prints a URL with a new token; anyone who opens it may operate. SEQUENCER_WEB_TOKEN names a token of your own, which
    is not printed, and SEQUENCER_WEB_APPEND_TOKEN one with which programs append over HTTP: docs/http.md.
    To mount it in FastAPI, Django or Flask instead, see docs/dashboard.md.
    """
    try:
        import uvicorn

        from ..web import Token, dashboard
    except ModuleNotFoundError as error:
        raise ConfigurationError("web_missing", module=error.name) from error
    own = os.environ.get(TOKEN, "")
    token = own or secrets.token_urlsafe(24)
    names = [check_name("queue", name) for name in queues] if queues else None
    who = Token(look=token) if read_only else Token(token, append=os.environ.get(APPEND_TOKEN, ""))
    hosts = [*(allow_host or []), host]
    served = dashboard(names, find_server(redis), who=who, namespace=namespace, hosts=hosts)
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigurationError("address_unusable", address=f"{host}:{port}", error=error.strerror) from error
    # asyncio would only set it for a socket that it opened itself, and each answer would take 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}/"
    typer.echo(url if own else f"{url}?token={token}")
    if host not in ("127.0.0.1", "::1", "localhost"):
        say(answer_text("web_plain_http", host=host))
    config = uvicorn.Config(served, log_level="warning", timeout_graceful_shutdown=STOP_S, server_header=False)
    uvicorn.Server(config).run(sockets=[listening])
    return FINE
