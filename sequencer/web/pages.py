"""The pages that only show: queues, one queue, its groups, a group, a message, dead letters, history; and the dry run
before a change of many.

A group is named by `g=` for each of its parts, a message by `id=` besides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..client import Sequencer
from ..errors import MessageNotFound
from ..settings.policy import Policy
from ..texts.explanations import Explanation
from ..values.history import OUTCOMES
from ..values.views import Consumers, GroupInfo, GroupState
from .queues import client_of, sampler_of
from .rendering import page

PARKED_SEEN = 200
"""Parked groups that the page of a queue counts by error: 600 small reads, shared by all viewers."""
ERRORS_SHOWN = 8
HISTORY_SHOWN = 50
LATE_S = 10.0
"""So long a group may be due before the page says why it waits."""
GAP = "gap"
"""Shown as the error where a missing number holds a group back, as `sequencer parked` does."""
UNRETRYABLE = (GAP, "StepUnknown", "StepResultInvalid")
"""What waits for a number, or for an operator's answer about a step, is not retried."""
MANY = ("resume", "skip", "redrive", "purge")


class OneError(NamedTuple):
    """Parked groups of one error, with one of them explained."""

    error: str
    groups: int
    example: GroupInfo
    sentence: str

    @property
    def is_retryable(self) -> bool:
        return self.error not in UNRETRYABLE


class Work(NamedTuple):
    """What stands still in a queue, who works on it, and by which policy."""

    errors: list[OneError]
    seen: int
    """Parked groups that were counted by error."""
    is_cut: bool
    """Whether there are more."""
    retrying: list[GroupInfo]
    late: Explanation | None
    consumers: Consumers
    policy: Policy


def queues(request: Request) -> Response:
    return page(request, "queues.html", overview=sampler_of(request).overview())


def queue(request: Request) -> Response:
    client = client_of(request)
    return _page(request, "queue.html", work=sampler_of(request).once(client.queue, "work", lambda: _work(client)))


def _work(client: Sequencer) -> Work:
    parked = client.group_page("parked", limit=PARKED_SEEN)
    by_error = [(one.failure.type if one.failure else GAP, one) for one in parked.items]
    examples = dict(reversed(by_error))
    errors = [
        OneError(error, count, examples[error], client.explain(examples[error].group).sentence)
        for error, count in Counter(error for error, _ in by_error).most_common(ERRORS_SHOWN)
    ]
    retrying = [one for one in client.group_page("waiting").items if one.failure][:5]
    first_due = [client.explain(one.group) for one in client.group_page("due", limit=1).items]
    late = next((one for one in first_due if one.fields.get("waits_s", 0.0) > LATE_S), None)
    seen, is_cut = len(parked.items), parked.after is not None
    return Work(errors, seen, is_cut, retrying, late, client.consumers(), client.policy)


def groups(request: Request) -> Response:
    client, asked = client_of(request), request.query_params
    state: Any = asked.get("state") or None
    found = client.group_page(state, after=asked.get("after"))
    return _page(
        request, "groups.html", state=state, states=get_args(GroupState), found=found, after=asked.get("after")
    )


def group(request: Request) -> Response:
    client, name = client_of(request), _group(request)
    explained = client.explain(name)
    failed = explained.fields.get("id") or explained.head_id
    return page(
        request,
        "group.html",
        group=name,
        explained=explained,
        failed=failed,
        head=client.get(name, failed) if failed else None,
        messages=client.peek(name, limit=20),
        is_paused=explained.reason == "paused" or bool(explained.fields.get("is_paused")),
    )


def message(request: Request) -> Response:
    client, name, id = client_of(request), _group(request), request.query_params.get("id", "")
    found = client.get(name, id)
    if found is None:
        raise HTTPException(404, str(MessageNotFound("message_unknown", id=id, group=name, queue=client.queue)))
    return page(request, "message.html", group=name, found=found)


def dead(request: Request) -> Response:
    client, asked = client_of(request), request.query_params
    error = asked.get("error") or None
    found = client.dead_page(error=error, after=asked.get("after"))
    return _page(request, "dead.html", error=error, found=found, after=asked.get("after"))


def history(request: Request) -> Response:
    client, asked = client_of(request), request.query_params
    outcome: Any = asked.get("outcome") or None
    name = tuple(asked.getlist("g")) or None
    found = list(client.history(name, outcome=outcome, limit=HISTORY_SHOWN))
    about = {"group": name, "outcome": outcome, "outcomes": OUTCOMES}
    return _page(request, "history.html", found=found, is_kept=bool(client.policy.history_window), **about)


def many(request: Request) -> Response:
    """What a change of many groups or dead letters would do."""
    client, asked = client_of(request), request.query_params
    do, error = asked.get("do", ""), asked.get("error") or None
    if do not in MANY:
        raise HTTPException(404, "There is no such change.")
    summary = None
    if do in ("resume", "skip"):
        run = client.resume_many if do == "resume" else client.skip_many
        summary = run(error=error, everything=error is None, dry_run=True)
    count = summary.chosen if summary else client.count_dead(error=error)
    return page(request, "many.html", do=do, error=error, summary=summary, count=count)


def _group(request: Request) -> tuple[str, ...]:
    """Raises HTTPException 404 without one."""
    name = tuple(request.query_params.getlist("g"))
    if not name:
        raise HTTPException(404, "Which group? Its parts are missing in the address.")
    return name


def _page(request: Request, template: str, **fields: Any) -> Response:
    """One of the pages of a queue, which show what all viewers know of it."""
    queue = request.path_params["queue"]
    return page(request, template, queue=queue, sample=sampler_of(request).overview().of(queue), **fields)


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
