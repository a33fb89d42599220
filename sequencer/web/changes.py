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
    verb: str
    who: str
    jobs: Jobs
    fields: dict[str, list[str]]
    namespace: str
    count: int | None = None
    """How many it was about, of a change of several."""

    def one(self, name: str) -> str:
        """Raises ConfigurationError for a field that is missing, since what was seen is unknown then."""
        if (value := self.given(name)) is None:
            raise ConfigurationError("form_incomplete", name=name)
        return value

    def given(self, name: str) -> str | None:
        return next(iter(self.fields.get(name, [])), None)

    def number(self, name: str) -> int:
        """Raises ConfigurationError."""
        return self.whole(name, self.one(name).strip().replace(",", ""))

    @staticmethod
    def whole(name: str, text: str) -> int:
        """Raises ConfigurationError."""
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise ConfigurationError("whole_number_expected", name=name, value=text)
        return int(text)

    @property
    def group(self) -> tuple[str, ...]:
        self.one("g")
        return tuple(self.fields["g"])

    @property
    def about(self) -> tuple[tuple[str, ...], str]:
        """A group and the id that was seen in it."""
        return self.group, self.one("id")

    @property
    def letters(self) -> dict[str, Any]:
        """Which dead letters: one, those of an error, or all."""
        if self.given("id") is not None:
            return {"group": self.group, "id": self.one("id")}
        return self.many

    @property
    def many(self) -> dict[str, Any]:
        error = self.given("error")
        return {"everything": True} if error is None else {"error": error}

    def log(self, verb: str = "", **fields: Any) -> None:
        if "g" in self.fields:
            fields |= {"group": self.fields["g"]} | ({"id": self.one("id")} if "id" in self.fields else {})
        fields |= {"action": verb or self.verb, "who": self.who}
        fields = {name: value for name, value in fields.items() if value is not None}
        log_event(event("operator", self.client.queue, namespace=self.namespace, **fields))


# -- one group ------------------------------------------------------------------------------------------------------


def resume(asked: Asked) -> str:
    group, id = asked.about
    return "resumed" if asked.client.resume(group, id=id) else "already_due"


def skip(asked: Asked) -> str:
    """Always as a dead letter: nothing is lost by a click."""
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


def pause(asked: Asked) -> str:
    return "paused" if asked.client.pause(asked.group if "g" in asked.fields else None) else "already_paused"


def unpause(asked: Asked) -> str:
    return "unpaused" if asked.client.unpause(asked.group if "g" in asked.fields else None) else "not_paused"


def cancel(asked: Asked) -> str:
    asked.client.cancel(*asked.about)
    return "cancelled"


def reschedule(asked: Asked) -> str:
    asked.client.reschedule(*asked.about, delay=asked.one("delay").strip())
    return "rescheduled"


def answer(asked: Asked) -> str:
    """For one step, or for several at once: of each its `step` and the `attempt` that was seen, and perhaps `answer`
    and `result`, in the same order."""
    (group, id), steps = asked.about, asked.fields.get("step", [])
    answers = asked.fields.get("answer") or [asked.verb] * len(steps)
    results = asked.fields.get("result") or [""] * len(steps)
    seen = asked.fields.get("attempt", [])
    if not steps or not len(steps) == len(answers) == len(results) == len(seen):
        raise ConfigurationError("form_incomplete", name="step")
    done = {step: _result(text) for step, one, text in zip(steps, answers, results, strict=True) if one == "done"}
    again = [step for step, one in zip(steps, answers, strict=True) if one == "again"]
    attempts = {step: asked.whole("attempt", text) for step, text in zip(steps, seen, strict=True)}
    change = asked.client.redrive if asked.given("dead") else asked.client.resume
    change(group, id=id, done=done, again=again, attempts=attempts, by=asked.who)
    return "answered"


def _result(text: str) -> Any:
    try:
        return orjson.loads(text) if text.strip() else None
    except orjson.JSONDecodeError as error:
        raise ConfigurationError("result_not_json", value=text, error=str(error)) from error


# -- dead letters, outages, many groups -----------------------------------------------------------------------------


def redrive(asked: Asked) -> str:
    if asked.given("id") is None:
        return _start(asked, lambda told: asked.client.redrive(**asked.many, on_progress=told))
    found = asked.client.redrive(**asked.letters)
    return "redriven_parked" if found.parked else "redriven"


def purge(asked: Asked) -> str:
    """For good, so the number is typed."""
    letters = asked.letters
    chosen = {name: value for name, value in letters.items() if name != "everything"}
    _same(asked.number("count"), asked.client.count_dead(**chosen))
    asked.count = asked.client.purge(**letters)
    return "purged"


def probe(asked: Asked) -> str:
    return "probing" if asked.client.probe_outage() else "no_outage"


def resume_many(asked: Asked) -> str:
    return _start(asked, lambda told: asked.client.resume_many(**asked.many, on_progress=told))


def skip_many(asked: Asked) -> str:
    _same(asked.number("chosen"), asked.client.skip_many(**asked.many, dry_run=True).chosen)
    return _start(asked, lambda told: asked.client.skip_many(**asked.many, on_progress=told))


def stop_many(asked: Asked) -> str:
    return "stopping" if asked.jobs.stop(asked.client.queue) else "no_job"


def _start(asked: Asked, run: Callable[[Progress], Any]) -> str:
    """`chosen` is the number that a dry run showed; there is no way past it."""
    asked.count = asked.number("chosen")
    job = Job(asked.verb, asked.given("error"), asked.who, asked.count)
    asked.jobs.start(asked.client.queue, job, run, lambda job: asked.log(f"{job.action} {job.state}", count=job.done))
    return "started"


def _same(seen: int, now: int) -> None:
    if seen != now:
        raise SequencerError("count_changed", seen=seen, now=now)


# -- requests -------------------------------------------------------------------------------------------------------

VERBS: dict[str, tuple[Callable[[Asked], str], str]] = {
    "resume": (resume, "group"),
    "skip": (skip, "group"),
    "unskip": (unskip, "group"),
    "pause": (pause, "group"),
    "unpause": (unpause, "group"),
    "cancel": (cancel, "group"),
    "reschedule": (reschedule, "group"),
    "done": (answer, "group"),
    "again": (answer, "group"),
    "redrive": (redrive, "dead"),
    "purge": (purge, "dead"),
    "probe": (probe, ""),
    "resume-many": (resume_many, ""),
    "skip-many": (skip_many, ""),
    "stop-many": (stop_many, ""),
}
"""What a verb does, and the page that shows what came of it; without a group, that of the queue."""


def _endpoint(verb: str) -> Callable[[Request], Any]:
    async def changed(request: Request) -> Response:
        return await run_in_threadpool(_changed, request, verb, await _typed(request))

    return changed


def _changed(request: Request, verb: str, typed: bytes) -> Response:
    fields = parse_qs(request.url.query, keep_blank_values=True)
    for name, values in parse_qs(typed.decode("utf-8", "replace"), keep_blank_values=True).items():
        fields.setdefault(name, values)  # what was seen comes first
    state, queue = request.app.state, request.path_params["name"]
    asked = Asked(state.queues.client(queue), verb, name_of(request), state.jobs, fields, state.queues.namespace)
    act, page = VERBS[verb]
    try:
        said = act(asked)
    except OutcomeUnknown as error:
        asked.log(error=str(error))
        raise
    if said not in UNCHANGED:
        asked.log(count=asked.count)
    state.sampler.changed(queue)
    base, about = request.scope.get("root_path", ""), {"g": asked.fields["g"]} if "g" in asked.fields else {}
    if page == "group" and not about:
        page = ""  # a pause of the whole queue
    to = href(base, "q", queue, page, **(about if page == "group" else {}), said=said)
    return RedirectResponse(to.unescape(), 303)


async def _typed(request: Request) -> bytes:
    """Raises HTTPException 413."""
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > MOST_BYTES:
            raise HTTPException(413)
    return bytes(found)


routes = [Route(f"/q/{{name}}/{verb}", _endpoint(verb), methods=["POST"]) for verb in VERBS]
