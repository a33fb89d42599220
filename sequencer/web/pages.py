"""The pages that only show: queues, one queue, its groups, a group, a message, dead letters, history.

A group is named by `g=` for each of its parts, a message by `id=` besides.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .rendering import page
from .sampler import Sampler


def queues(request: Request) -> Response:
    sampler: Sampler = request.app.state.sampler
    return page(request, "queues.html", overview=sampler.overview())


routes = [Route("/", queues, name="queues")]
