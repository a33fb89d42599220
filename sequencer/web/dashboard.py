"""The ASGI app: routes, who may, and what an error becomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from ..client import QueueClients, QueueGone
from ..errors import ConfigurationError, InvalidMessage, SequencerError, ServerError
from . import append, changes, find, pages, watched
from .access import Access, Who
from .queues import sampler_of
from .rendering import ROOM, page
from .sampler import Sampler

TITLES = {
    400: "This can't be asked",
    404: "Not found",
    409: "Nothing was changed",
    503: "The server does not answer",
}


def dashboard(
    queues: Iterable[str] | None = None,
    redis: Any = None,
    *,
    who: Who,
    namespace: str = "sequencer",
    shows_bodies: bool = False,
    is_read_only: bool = False,
    hosts: Iterable[str] | None = None,
) -> Starlette:
    """The dashboard as an ASGI app: run it by itself, or mount it in FastAPI, Starlette or Django.

    `queues`: the names of those to show; without them all of the namespace. `redis`: as for Sequencer. `who`: a
    function of the request, plain or async, that returns "operate" for who may change things, "look" for who may see
    them, "append" for a program that only appends, None for anybody else; or a `Token`. There is no default.
    `shows_bodies`: bodies of messages also for "look". `is_read_only`: nobody may change anything. `hosts`: the names
    under which it is served, besides loopback; None leaves that to the application that it is mounted in. Nothing
    connects before the first request. Raises ConfigurationError for a wrong name.
    """
    clients = QueueClients(queues, redis, namespace)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        clients.forget()

    app = Starlette(
        routes=[
            *pages.routes,
            *find.routes,
            *watched.routes,
            *append.routes,
            *changes.routes,
            Mount("/static", StaticFiles(directory=ROOM / "static"), name="static"),
        ],
        middleware=[Middleware(Access, who=who, hosts=hosts, shows_bodies=shows_bodies, is_read_only=is_read_only)],
        exception_handlers={SequencerError: _refused, HTTPException: _refused},
        lifespan=lifespan,
    )
    app.state.sampler = Sampler(clients)
    return app


def _refused(request: Request, error: Exception) -> Response:
    """An error in its own words: the server is away, a name is wrong, or what was to be changed has changed."""
    if isinstance(error, QueueGone):
        sampler_of(request).clients.forget()
        if request.method == "GET":  # what has its name now is seen by the next look
            return RedirectResponse(str(request.url), 303)
    if isinstance(error, HTTPException):
        status, text = error.status_code, error.detail
    else:
        is_wrong = isinstance(error, ConfigurationError | InvalidMessage)
        status, text = 503 if isinstance(error, ServerError) else 400 if is_wrong else 409, str(error)
    return page(request, "error.html", status=status, title=TITLES.get(status, "Refused"), text=text)
