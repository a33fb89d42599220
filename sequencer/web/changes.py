"""What an operator changes: `POST /q/NAME/VERB`, one for each verb.

It acts only on what the page showed: a form names the message that was seen at the head, or the number that was seen,
and if that has changed, nothing is done. What it is about stands in the query of the form's address, since a browser
changes line ends in fields; what is typed stands in the body. Each change is an event in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..client import Sequencer
from ..errors import ConfigurationError, OutcomeUnknown, SequencerError
from ..texts.changes import UNCHANGED
from ..texts.events import event, log_event
from .access import name_of
from .jobs import Job, Jobs, Progress
from .rendering import href

MOST_BYTES = 100_000
"""Of what is typed: the result of a step may be long."""


@dataclass
class Asked:
    """A change as it was asked for."""

    client: Sequencer
    namespace: str
    verb: str
    who: str
    jobs: Jobs
    fields: dict[str, list[str]]
    count: int | None = None
    """How many it was about, of a change of several."""

    def one(self, name: str) -> str:
        """Raises ConfigurationError for a field that is missing, since what was seen is unknown then."""
        if name not in self.fields:
            raise ConfigurationError("form_incomplete", name=name)
        return self.fields[name][0]

    def number(self, name: str) -> int:
        """Raises ConfigurationError."""
        return _whole(name, self.one(name).strip().replace(",", ""))

    @property
    def group(self) -> tuple[str, ...]:
        self.one("g")
        return tuple(self.fields["g"])

    @property
    def about(self) -> tuple[tuple[str, ...], str]:
        """A group, and the message that was seen in it."""
        return self.group, self.one("id")

    @property
    def held(self) -> tuple[str, ...] | None:
        """What is paused: a group, or the whole queue."""
        return self.group if "g" in self.fields else None

    @property
    def many(self) -> dict[str, Any]:
        """Those of an error, or all."""
        return {"error": self.one("error")} if "error" in self.fields else {"everything": True}

    def log(self, verb: str = "", **fields: Any) -> None:
        fields |= {"action": verb or self.verb, "who": self.who, "group": self.fields.get("g")}
        fields |= {"id": self.one("id") if "id" in self.fields else None}
        given = {name: value for name, value in fields.items() if value is not None}
        log_event(event("operator", self.client.queue, namespace=self.namespace, **given))


def skip(asked: Asked) -> str:
    """Always as a dead letter: nothing is lost by a click. In a sequence, the missing numbers that were seen."""
    if "first" not in asked.fields:
        group, id = asked.about
        asked.client.skip(group, id=id, dead_letter=True)
        return "skipped"
    found = asked.client.explain(asked.group)
    if found.reason != "gap" or found.fields.get("first") != asked.number("first"):
        raise SequencerError("gap_changed", group=asked.group)
    asked.client.skip(asked.group, dead_letter=True)  # if the gap is gone by now, at least no message is
    return "gap_skipped"


def unskip(asked: Asked) -> str:
    group, id = asked.about
    asked.client.unskip(group, id=id)
    return "unskipped"


def cancel(asked: Asked) -> str:
    asked.client.cancel(*asked.about)
    return "cancelled"


def reschedule(asked: Asked) -> str:
    asked.client.reschedule(*asked.about, delay=asked.one("delay").strip())
    return "rescheduled"


def answer(asked: Asked) -> str:
    """For one step, or for several at once: of each its `step` and the `attempt` that was seen, and perhaps `answer`
    and `result`, in the same order."""
    steps, seen = (asked.fields.get(name, []) for name in ("step", "attempt"))
    answers = asked.fields.get("answer", [asked.verb] * len(steps))
    results = asked.fields.get("result", [""] * len(steps))
    if not steps or not len(steps) == len(answers) == len(results) == len(seen):
        raise ConfigurationError("form_incomplete", name="step")
    said = {
        "done": {step: _result(text) for step, one, text in zip(steps, answers, results, strict=True) if one == "done"},
        "again": [step for step, one in zip(steps, answers, strict=True) if one == "again"],
        "attempts": {step: _whole("attempt", text) for step, text in zip(steps, seen, strict=True)},
    }
    group, id = asked.about
    change: Any = asked.client.redrive if "dead" in asked.fields else asked.client.resume
    change(group, id=id, by=asked.who, **said)
    return "answered"


def redrive(asked: Asked) -> str:
    if "id" not in asked.fields:
        return _start(asked, lambda progress: asked.client.redrive(**asked.many, on_progress=progress))
    group, id = asked.about
    return "redriven_parked" if asked.client.redrive(group, id=id).parked else "redriven"


def purge(asked: Asked) -> str:
    """For good, so the number is typed."""
    _same(asked.number("count"), asked.client.count_dead(error=asked.many.get("error")))
    asked.count = asked.client.purge(**asked.many)
    return "purged"


def resume_many(asked: Asked) -> str:
    return _start(asked, lambda progress: asked.client.resume_many(**asked.many, on_progress=progress))


def skip_many(asked: Asked) -> str:
    _same(asked.number("chosen"), asked.client.skip_many(**asked.many, dry_run=True).chosen)
    return _start(asked, lambda progress: asked.client.skip_many(**asked.many, on_progress=progress))


VERBS: dict[str, Callable[[Asked], str]] = {
    "resume": lambda asked: "resumed" if asked.client.resume(asked.group, id=asked.one("id")) else "already_due",
    "skip": skip,
    "unskip": unskip,
    "pause": lambda asked: "paused" if asked.client.pause(asked.held) else "already_paused",
    "unpause": lambda asked: "unpaused" if asked.client.unpause(asked.held) else "not_paused",
    "cancel": cancel,
    "reschedule": reschedule,
    "done": answer,
    "again": answer,
    "redrive": redrive,
    "purge": purge,
    "probe": lambda asked: "probing" if asked.client.probe_outage() else "no_outage",
    "resume-many": resume_many,
    "skip-many": skip_many,
    "stop-many": lambda asked: "stopping" if asked.jobs.stop(asked.client.queue) else "no_job",
}
"""Each returns the word for what the next page says (`texts/changes.py`)."""


def _start(asked: Asked, run: Callable[[Progress], Any]) -> str:
    """`chosen` is the number that a dry run showed; there is no way past it."""
    asked.count = asked.number("chosen")
    job = Job(asked.verb, asked.many.get("error"), asked.who, asked.count)
    asked.jobs.start(asked.client.queue, job, run, lambda job: asked.log(f"{job.action} {job.state}", count=job.done))
    return "started"


def _same(seen: int, now: int) -> None:
    if seen != now:
        raise SequencerError("count_changed", seen=seen, now=now)


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ConfigurationError("whole_number_expected", name=name, value=text)
    return int(text)


def _result(text: str) -> Any:
    try:
        return orjson.loads(text) if text.strip() else None
    except orjson.JSONDecodeError as error:
        raise ConfigurationError("result_not_json", value=text, error=str(error)) from error


def _endpoint(verb: str) -> Callable[[Request], Any]:
    async def changed(request: Request) -> Response:
        typed = bytearray()
        async for chunk in request.stream():
            typed += chunk
            if len(typed) > MOST_BYTES:
                raise HTTPException(413)
        return await run_in_threadpool(_changed, request, verb, typed.decode("utf-8", "replace"))

    return changed


def _changed(request: Request, verb: str, typed: str) -> Response:
    # What was seen, in the query, comes before what is typed.
    fields = parse_qs(typed, keep_blank_values=True) | parse_qs(request.url.query, keep_blank_values=True)
    state, queue = request.app.state, request.path_params["queue"]
    client, who = state.queues.client(queue), name_of(request)
    asked = Asked(client, state.queues.namespace, verb, who, state.jobs, fields)
    try:
        said = VERBS[verb](asked)
    except OutcomeUnknown as error:
        asked.log(error=str(error))
        raise
    if said not in UNCHANGED:
        asked.log(count=asked.count)
    state.sampler.changed(queue)
    page = "group" if "g" in fields else "dead" if verb == "purge" else ""
    to = href(request.scope.get("root_path", ""), "q", queue, page, g=fields.get("g"), said=said)
    return RedirectResponse(to.unescape(), 303)


routes = [Route(f"/q/{{queue}}/{verb}", _endpoint(verb), methods=["POST"]) for verb in VERBS]
