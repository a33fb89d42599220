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
    clients, name = sampler_of(request).clients, request.path_params["queue"]
    if name not in clients.known and name not in clients.names():
        raise HTTPException(404, f"There is no queue {name} here.")
    return clients.client(name)
