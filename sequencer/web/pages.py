"""The pages that only show: queues, one queue, its groups, a group, a message, dead letters, history; and the dry run
before a change of many.

A group is named by `g=` for each of its parts, a message by `id=` besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..client import Sequencer
from ..errors import MessageNotFound
from ..values.history import OUTCOMES
from .rendering import GAP, page
from .sampler import client_of, sampler_of

PARKED_SEEN = 100
"""Parked groups that the page of a queue counts by error: three small reads each, shared by all viewers."""
ERRORS_SHOWN = 8
HISTORY_SHOWN = 50
LATE_S = 10.0
"""So long a group may be due before the page says why it waits."""


def queues(request: Request) -> Response:
    return page(request, "queues.html", overview=sampler_of(request).overview())


def queue(request: Request) -> Response:
    client = client_of(request)
    return _page(request, "queue.html", **sampler_of(request).once(f"work {client.queue}", lambda: _work(client)))


def _work(client: Sequencer) -> dict[str, Any]:
    """What stands still in a queue, by error with one group explained; who works on it, and by which policy."""
    parked = client.group_page("parked", limit=PARKED_SEEN)
    by_error = [(one.failure.type if one.failure else GAP, one.group) for one in parked.items]
    examples, counts = dict(reversed(by_error)), Counter(error for error, _ in by_error)
    first_due = [client.explain(one.group) for one in client.group_page("due", limit=1).items]
    return {
        "parked": parked,
        "errors": [(*one, client.explain(examples[one[0]])) for one in counts.most_common(ERRORS_SHOWN)],
        "late": next((one for one in first_due if one.fields.get("waits_s", 0.0) > LATE_S), None),
        "consumers": client.consumers(),
        "policy": client.policy,
    }


def groups(request: Request) -> Response:
    found = client_of(request).group_page(_asked(request, "state"), after=_asked(request, "after"))
    return _page(request, "groups.html", found=found)


def group(request: Request) -> Response:
    client, group = client_of(request), _group(request)
    seen = sampler_of(request).once(f"group {client.queue} {group}", lambda: _seen(client, group))
    return page(request, "group.html", **seen)


def _seen(client: Sequencer, group: tuple[str, ...]) -> dict[str, Any]:
    explained = client.explain(group)
    failed = explained.fields.get("id") or explained.head_id
    return {
        "explained": explained,
        "failed": failed,
        "head": client.get(group, failed) if failed else None,
        "messages": client.peek(group, limit=20),
        "is_paused": explained.reason == "paused" or bool(explained.fields.get("is_paused")),
    }


def message(request: Request) -> Response:
    client, group, id = client_of(request), _group(request), request.query_params.get("id", "")
    found = client.get(group, id)
    if found is None:
        raise HTTPException(404, str(MessageNotFound("message_unknown", id=id, group=group, queue=client.queue)))
    return page(request, "message.html", head=found)


def dead(request: Request) -> Response:
    found = client_of(request).dead_page(error=_asked(request, "error"), after=_asked(request, "after"))
    return _page(request, "dead.html", found=found)


def history(request: Request) -> Response:
    client, group = client_of(request), tuple(request.query_params.getlist("g")) or None
    found = list(client.history(group, outcome=_asked(request, "outcome"), limit=HISTORY_SHOWN))
    return _page(request, "history.html", found=found, outcomes=OUTCOMES, is_kept=bool(client.policy.history_window))


def many(request: Request) -> Response:
    """What a change of many groups or dead letters would do."""
    client, do, error, summary = client_of(request), _asked(request, "do"), _asked(request, "error"), None
    if do in ("resume", "skip"):
        run = client.resume_many if do == "resume" else client.skip_many
        summary = run(error=error, everything=error is None, dry_run=True)
    elif do not in ("redrive", "purge"):
        raise HTTPException(404, "There is no such change.")
    count = summary.chosen if summary else client.count_dead(error=error)
    return page(request, "many.html", summary=summary, count=count)


def _asked(request: Request, name: str) -> Any:
    return request.query_params.get(name) or None


def _group(request: Request) -> tuple[str, ...]:
    """Raises HTTPException 404 without one."""
    group = tuple(request.query_params.getlist("g"))
    if not group:
        raise HTTPException(404, "Which group? Its parts are missing in the address.")
    return group


def _page(request: Request, template: str, **fields: Any) -> Response:
    """One of the pages of a queue, which show what all viewers know of it."""
    sample = sampler_of(request).overview().of(request.path_params["queue"])
    return page(request, template, sample=sample, **fields)


routes: Sequence[Route] = [
    Route("/", queues),
    Route("/q/{queue}/", queue),
    Route("/q/{queue}/groups", groups),
    Route("/q/{queue}/group", group),
    Route("/q/{queue}/message", message),
    Route("/q/{queue}/dead", dead),
    Route("/q/{queue}/history", history),
    Route("/q/{queue}/many", many),
]
