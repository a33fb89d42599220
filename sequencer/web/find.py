"""The search: a group by its parts, a message by its group and id, or by its id alone.

`1002 77`, with parts quoted as the pages show them, or a JSON list; each perhaps followed by an id. Groups are asked
for by name, at a few commands for each queue. An id alone is found by a walk over all groups of a queue: its price
stands beside it, it is asked for by a click, and one runs at a time.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..client import Sequencer
from ..errors import InvalidMessage, SequencerError
from .rendering import href, page
from .sampler import client_of, sampler_of

MOST_CHARACTERS = 2_000
S_A_GROUP = 3e-6
"""What a walk over all groups takes for each, measured at a million."""
DEAD_SHOWN = 20
_walking = threading.Lock()
Wanted = tuple[tuple[str, ...], str | None]
"""One reading of what was typed: a group, and perhaps an id."""


class Hit(NamedTuple):
    queue: str
    group: tuple[str, ...]
    id: str | None
    """Of a message; None for a group."""
    what: Any
    """An Explanation, or a MessageInfo."""


def readings(text: str) -> list[Wanted]:
    """What may be meant, without repeats."""
    text = text.strip()[:MOST_CHARACTERS]
    with suppress(ValueError, RecursionError):
        parts, end = json.JSONDecoder().raw_decode(text)
        if isinstance(parts, list):
            return [(tuple(map(str, parts)), text[end:].strip() or None)] if parts else []
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is not closed
        words = text.split()
    found: list[Wanted] = [(tuple(words), None), (tuple(words[:-1]), words[-1] if words else None), ((text,), None)]
    return list(dict.fromkeys(one for one in found if one[0] and all(one[0])))


def find(request: Request) -> Response:
    text = request.query_params.get("q", "").strip()
    wanted, clients = readings(text), sampler_of(request).clients
    hits = [hit for name in clients.names() for hit in _hits(clients.client(name), wanted)]
    if len(hits) == 1:
        base, (name, group, id, _) = request.scope.get("root_path", ""), hits[0]
        return RedirectResponse(href(base, "q", name, "message" if id else "group", g=group, id=id).unescape(), 303)
    samples = sampler_of(request).overview().queues if text else ()
    prices = {one.queue: (one.info.groups, max(0.001, one.info.groups * S_A_GROUP)) for one in samples if one.info}
    return page(request, "find.html", text=text, hits=hits, prices=prices)


def find_id(request: Request) -> Response:
    """In all groups of one queue."""
    client, id = client_of(request), request.query_params.get("q", "").strip()
    if not _walking.acquire(blocking=False):
        raise SequencerError("search_runs")
    try:
        hits = [Hit(client.queue, one.group, one.id, one) for one in client.find(id)]
    finally:
        _walking.release()
    return page(request, "find.html", text=id, hits=hits, prices={})


def _hits(client: Sequencer, wanted: list[Wanted]) -> Iterator[Hit]:
    """Groups with pending messages, dead letters of other groups: where late messages are, for one; and messages."""
    is_found = False
    for group, id in wanted:
        with suppress(InvalidMessage):  # what no group or id can be
            if id is None and (explained := client.explain(group)).reason != "nothing":
                is_found = True
                yield Hit(client.queue, group, None, explained)
            elif id is None:
                for one in client.dead_page(group, limit=DEAD_SHOWN).items:
                    yield Hit(client.queue, group, one.message.id, one.info)
            # For an id that is unknown, the names of all dead letters are read: only where no group was found.
            elif not is_found and (message := client.get(group, id)):
                yield Hit(client.queue, group, id, message)


routes = [Route("/find", find), Route("/q/{queue}/find", find_id)]
