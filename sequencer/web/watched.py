"""What programs ask that watch the dashboard: /metrics, and /live and /ready, which anybody may ask and say no more."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..errors import SequencerError
from ..texts.refusals import refusal_text
from .queues import sampler_of


def live(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def ready(request: Request) -> Response:
    """Whether the server answers; asked once for all who ask within a second or so."""

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
    text, kind = exposition(QueueCollector(sampler_of(request).clients), request.headers.get("accept", ""))
    return Response(text, headers={"content-type": kind})


routes = [Route("/live", live), Route("/ready", ready), Route("/metrics", metrics)]
