"""The ASGI app: routes, what an error becomes, and what programs ask that watch it: /live and /ready, which anybody
may ask and say no more, and /metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..client import QueueClients, QueueGone
from ..errors import ConfigurationError, InvalidMessage, SequencerError, ServerError
from ..texts.refusals import refusal_text
from . import append, changes, find, pages
from .access import LOOPBACK, Access, Who
from .rendering import ROOM, page
from .sampler import Sampler, sampler_of

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
    hosts: Iterable[str] | None = None,
) -> Starlette:
    """The dashboard as an ASGI app: run it by itself, or mount it in FastAPI, Starlette or Django.

    `queues`: the names of those to show; without them all of the namespace. `redis`: as for Sequencer. `who`: a
    function of the request, plain or async, that returns "operate" for who may change things, "look" for who may see
    them, "append" for a program that only appends, None for anybody else; or a `Token`. There is no default.
    `shows_bodies`: bodies of messages also for "look". `hosts`: the names under which it is served, besides loopback;
    None leaves that to the application that it is mounted in. Nothing connects before the first request. Raises
    ConfigurationError for a wrong name.
    """
    names = None if hosts is None else LOOPBACK | {host.lower() for host in hosts}
    app = Starlette(
        routes=[
            *pages.routes,
            *find.routes,
            *append.routes,
            *changes.routes,
            Route("/live", live),
            Route("/ready", ready),
            Route("/metrics", metrics),
            Mount("/static", StaticFiles(directory=ROOM / "static"), name="static"),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=Access(who, names, shows_bodies))],
        exception_handlers={SequencerError: _refused, HTTPException: _refused},
    )
    app.state.sampler = Sampler(QueueClients(queues, redis, namespace))
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


def live(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def ready(request: Request) -> Response:
    """Whether the server answers; asked once for all who ask within a second or so, since anybody may."""

    def answers() -> bool:
        try:
            sampler_of(request).clients.stored()
        except SequencerError:
            return False
        return True

    if sampler_of(request).once("ready", answers):
        return PlainTextResponse("ok\n")
    return PlainTextResponse("the server does not answer\n", 503)


def metrics(request: Request) -> Response:
    try:
        from ..metrics import QueueCollector
        from ..metrics.families import exposition
    except ModuleNotFoundError as error:
        return PlainTextResponse(refusal_text("metrics_missing", {"error": str(error)}), 501)
    text, kind = exposition(QueueCollector(sampler_of(request).clients))
    return Response(text, headers={"content-type": kind})
