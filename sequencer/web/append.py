"""Appends of programs in other languages: `POST /q/NAME/messages`, one message or many; what is answered is JSON.

An object is one message, an array is many; each has the arguments of `Sequencer.append`, of which `replace` and
`backlog` stand in the query. The queue has to be there, or to be named to the dashboard: a token must not make queues
of typos.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ..client import QueueGone
from ..errors import (
    BatchRefused,
    ConfigurationError,
    IdConflict,
    InvalidGroup,
    InvalidMessage,
    LateMessage,
    OutcomeUnknown,
    QueueFull,
    SequencerError,
    ServerError,
    ServerUnavailable,
)
from ..values.json_input import arguments, decoded
from ..values.views import as_json
from .sampler import client_of, sampler_of

MOST_BYTES = 8 * 1024 * 1024
REFUSALS: Sequence[tuple[Any, int, int | None]] = (
    (InvalidMessage, 422, None),
    ((IdConflict, LateMessage), 409, None),
    (QueueFull, 503, 10),
    (OutcomeUnknown, 504, 1),
    (QueueGone, 503, 1),
    (ServerUnavailable, 503, 5),
    (ServerError, 503, None),
    (ConfigurationError, 400, None),
    (SequencerError, 500, None),
)
"""The status of each kind, and after how many seconds the request is worth repeating: others won't pass then either."""


async def append(request: Request) -> Response:
    """202 with what `append` or `append_many` returns; else the refusal: code, text and fields."""
    try:
        return _answer(202, await run_in_threadpool(_append, request, await body_of(request, MOST_BYTES)))
    except HTTPException as error:
        return _answer(error.status_code, {"code": "queue_unknown", "text": error.detail})
    except SequencerError as error:
        if isinstance(error, QueueGone):  # or the server lost all, and a consumer brings it back
            sampler_of(request).clients.forget()
        cause = error.refused[0].error if isinstance(error, BatchRefused) else error
        status, retry_s = next((status, retry_s) for kind, status, retry_s in REFUSALS if isinstance(cause, kind))
        return _answer(status, _refusal(error), retry_s)


async def body_of(request: Request, most: int) -> bytes:
    """Raises InvalidMessage for more; HTTPException where the sender has gone."""
    text = bytearray()
    try:
        async for part in request.stream():
            text += part
            if len(text) > most:
                raise InvalidMessage("request_too_large", most=most)
    except ClientDisconnect:
        raise HTTPException(400) from None
    return bytes(text)


def _append(request: Request, text: bytes) -> Any:
    client, value = client_of(request), decoded(text)
    replace, backlog = (request.query_params.get(name) == "true" for name in ("replace", "backlog"))
    if not isinstance(value, list):
        return as_json(client.append(**arguments(value), replace=replace, backlog=backlog))
    messages = [arguments(one) for one in value]
    if not all("group" in one for one in messages):  # of several, fields of the body are not asked
        raise InvalidGroup("group_missing")
    return as_json(client.append_many(messages, replace=replace))


def _refusal(error: SequencerError) -> dict[str, Any]:
    found: dict[str, Any] = {"code": error.code, "text": str(error)}
    if isinstance(error, BatchRefused):
        found["refused"] = [{"index": one.index, **_refusal(one.error)} for one in error.refused]
        return found | {"appended": error.stored}
    if error.earlier:
        found["appended"] = error.earlier.appended
    return found | {"fields": dict(error.fields)}


def _answer(status: int, value: Any, retry_s: int | None = None) -> Response:
    headers = {} if retry_s is None else {"retry-after": str(retry_s)}
    return Response(orjson.dumps(value, default=str), status, headers, "application/json")


routes = [Route("/q/{queue}/messages", append, methods=["POST"])]
