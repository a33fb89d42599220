"""What an endpoint has of the app that it is part of."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..client import Sequencer
from .sampler import Sampler


def sampler_of(request: Request) -> Sampler:
    sampler: Sampler = request.app.state.sampler
    return sampler


def client_of(request: Request) -> Sequencer:
    """Raises HTTPException 404 for a queue that is not shown, ServerError."""
    viewers, name = sampler_of(request).viewers, request.path_params["queue"]
    if name not in viewers.known and name not in viewers.names():
        raise HTTPException(404, f"There is no queue {name} here.")
    return viewers.client(name)
