"""The pages that only show: queues, one queue, its groups, a group, a message, dead letters, history; and the dry run
before a change of many.

A group is named by `g=` for each of its parts, a message by `id=` besides.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, NamedTuple, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..client import Sequencer
from ..errors import MessageNotFound
from ..texts.explanations import Explanation
from ..values.history import OUTCOMES
from ..values.views import Consumers, GroupInfo, GroupState
from .jobs import Job
from .rendering import page
from .sampler import QueueSample, Sampler

PARKED_SEEN = 200
"""Parked groups that the page of a queue counts by error: 600 small reads, shared by all viewers."""
ERRORS_SHOWN = 8
LATE_S = 10.0
"""So long a group may be due before the page says why it waits."""
JOB_SHOWN_S = 600.0
GAP = "gap"
"""Shown as the error where a missing number holds a group back, as `sequencer parked` does."""
UNRETRYABLE = (GAP, "StepUnknown", "StepResultInvalid")
"""What waits for a number, or for an operator's answer about a step, is not retried."""
Change = Literal["resume", "skip", "redrive", "purge"]
STATES: tuple[GroupState, ...] = get_args(GroupState)


class OneError(NamedTuple):
    """Parked groups of one error, with one of them explained."""

    error: str
    groups: int
    example: GroupInfo
    sentence: str

    @property
    def is_retryable(self) -> bool:
        return self.error not in UNRETRYABLE


class Stuck(NamedTuple):
    """What stands still in a queue, and who works on it."""

    errors: list[OneError]
    seen: int
    """Parked groups that were counted by error."""
    is_cut: bool
    """Whether there are more."""
    retrying: list[GroupInfo]
    late: Explanation | None
    consumers: Consumers


def queues(request: Request) -> Response:
    return page(request, "queues.html", overview=_sampler(request).overview())


def queue(request: Request) -> Response:
    client, sampler = _client(request), _sampler(request)
    stuck = sampler.once(client.queue, "stuck", lambda: _stuck(client))
    policy = sampler.once(client.queue, "policy", lambda: client.policy)
    options = {one.name: getattr(policy, one.name) for one in fields(policy)}
    about: dict[str, Any] = {"sample": _sample(request), "stuck": stuck, "policy": options}
    about["job"] = _job(request)
    return page(request, "queue.html", queue=client.queue, **about)


def _stuck(client: Sequencer) -> Stuck:
    first = client.group_page("parked", limit=PARKED_SEEN)
    parked = first.items
    counts = Counter(error_of(one) for one in parked)
    examples = {error_of(one): one for one in reversed(parked)}
    errors = [
        OneError(error, count, examples[error], client.explain(examples[error].group).sentence)
        for error, count in counts.most_common(ERRORS_SHOWN)
    ]
    retrying = [one for one in client.group_page("waiting", limit=50).items if one.failure][:5]
    late = None
    for one in client.group_page("due", limit=1).items:
        found = client.explain(one.group)
        late = found if found.fields.get("waits_s", 0.0) > LATE_S else None
    return Stuck(errors, len(parked), first.after is not None, retrying, late, client.consumers())


def error_of(group: GroupInfo) -> str:
    return group.failure.type if group.failure else GAP


def groups(request: Request) -> Response:
    client, asked = _client(request), request.query_params
    state: Any = asked.get("state") or None
    found = client.group_page(state, after=asked.get("after"))
    about: dict[str, Any] = {"state": state, "states": STATES, "after": asked.get("after")}
    return page(request, "groups.html", queue=client.queue, sample=_sample(request), found=found, **about)


def group(request: Request) -> Response:
    client, name = _client(request), asked_group(request)
    explained = client.explain(name)
    failed = explained.fields.get("id") or explained.head_id
    head = client.get(name, failed) if failed else None
    return page(
        request,
        "group.html",
        queue=client.queue,
        group=name,
        explained=explained,
        failed=failed,
        head=head,
        messages=client.peek(name, limit=20),
        is_paused=_is_paused(explained),
    )


def _is_paused(explained: Explanation) -> bool:
    return explained.reason == "paused" or bool(explained.fields.get("is_paused"))


def message(request: Request) -> Response:
    client, name, id = _client(request), asked_group(request), request.query_params.get("id", "")
    found = client.get(name, id)
    if found is None:
        raise HTTPException(404, str(MessageNotFound("message_unknown", id=id, group=name, queue=client.queue)))
    return page(request, "message.html", queue=client.queue, group=name, found=found)


def dead(request: Request) -> Response:
    client, asked = _client(request), request.query_params
    error = asked.get("error") or None
    found = client.dead_page(error=error, after=asked.get("after"))
    about: dict[str, Any] = {"error": error, "found": found, "after": asked.get("after"), "job": _job(request)}
    return page(request, "dead.html", queue=client.queue, sample=_sample(request), **about)


def history(request: Request) -> Response:
    client, asked = _client(request), request.query_params
    outcome: Any = asked.get("outcome") or None
    name = tuple(asked.getlist("g")) or None
    found = list(client.history(name, outcome=outcome, limit=50))
    is_kept = bool(client.policy.history_window)
    about: dict[str, Any] = {"group": name, "outcome": outcome, "outcomes": OUTCOMES, "is_kept": is_kept}
    return page(request, "history.html", queue=client.queue, sample=_sample(request), found=found, **about)


def many(request: Request) -> Response:
    """What a change of many groups or dead letters would do."""
    client, asked = _client(request), request.query_params
    do, error = asked.get("do", ""), asked.get("error") or None
    if do not in get_args(Change):
        raise HTTPException(404, "There is no such change.")
    chosen: dict[str, Any] = {"error": error, "everything": error is None}
    summary, count = None, 0
    if do in ("redrive", "purge"):
        count = client.count_dead(error=error)
    else:
        run = client.resume_many if do == "resume" else client.skip_many
        summary = run(**chosen, dry_run=True)
        count = summary.chosen
    return page(request, "many.html", queue=client.queue, do=do, error=error, summary=summary, count=count)


def _job(request: Request) -> Job | None:
    """What many groups or dead letters of the queue do, or did lately, at an operator's word."""
    job: Job | None = request.app.state.jobs.of(request.path_params["queue"])
    return job if job and (job.state == "running" or time.time() - job.began_at < JOB_SHOWN_S) else None


def asked_group(request: Request) -> tuple[str, ...]:
    """The group that a request is about. Raises HTTPException 404 without one."""
    name = tuple(request.query_params.getlist("g"))
    if not name:
        raise HTTPException(404, "Which group? Its parts are missing in the address.")
    return name


def _client(request: Request) -> Sequencer:
    client: Sequencer = request.app.state.queues.client(request.path_params["queue"])
    return client


def _sampler(request: Request) -> Sampler:
    sampler: Sampler = request.app.state.sampler
    return sampler


def _sample(request: Request) -> QueueSample:
    """What all viewers know of the queue; without numbers while it is newer than the last snapshot."""
    name = request.path_params["queue"]
    known = {one.queue: one for one in _sampler(request).overview().queues}
    return known.get(name) or QueueSample(name)


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
