"""What programs ask that watch the dashboard: /metrics, and /live and /ready, which anybody may ask and say no more."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..errors import SequencerError
from ..texts.refusals import refusal_text


def live(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def ready(request: Request) -> Response:
    """Whether the server answers; asked once for all who ask within a second or so."""
    state = request.app.state

    def answers() -> bool:
        try:
            state.queues.asked()
        except SequencerError:
            return False
        return True

    is_ready = state.sampler.once("", "ready", answers)
    return PlainTextResponse("ok\n" if is_ready else "the server does not answer\n", 200 if is_ready else 503)


def metrics(request: Request) -> Response:
    try:
        from ..metrics.families import exposition

        collector = request.app.state.queues.collector
    except ModuleNotFoundError as error:
        return PlainTextResponse(refusal_text("metrics_missing", {"error": str(error)}), 501)
    text, kind = exposition(collector, request.headers.get("accept", ""))
    return Response(text, headers={"content-type": kind})


routes = [Route("/live", live), Route("/ready", ready), Route("/metrics", metrics)]
