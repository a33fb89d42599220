"""What an operator changes: `POST /q/NAME/VERB`, one for each verb.

It acts only on what the page showed: a form names the message that was seen at the head, or the number that was seen,
and if that has changed, nothing is done. What it is about stands in the query of the form's address, since a browser
changes line ends in fields; what is typed stands in the body. Each change is an event in the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
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
from ..texts.events import event, log_event
from .access import name_of
from .append import body_of
from .rendering import href
from .sampler import client_of, sampler_of

MOST_BYTES = 100_000
"""Of what is typed: the result of a step may be long."""
BULK_S = 2.0
"""How long one request changes many groups, less than an end waits for it; the dry run then shows what is left."""
REDRIVE_RATE = 10_000.0


class _TimeUp(Exception):
    pass


@dataclass
class Asked:
    """A change as its form asks for it."""

    client: Sequencer
    who: str
    fields: dict[str, list[str]]
    count: int | None = None
    """How many it changed, of several."""
    until: float = 0.0

    def all(self, name: str) -> list[str]:
        """Raises ConfigurationError for a field that is missing, since what was seen is unknown then."""
        if name not in self.fields:
            raise ConfigurationError("form_incomplete", name=name)
        return self.fields[name]

    def one(self, name: str) -> str:
        return self.all(name)[0]

    @property
    def message(self) -> dict[str, Any]:
        """A group, and the message that was seen in it."""
        return {"group": self.all("g"), "id": self.one("id")}

    @property
    def many(self) -> dict[str, Any]:
        """Those of an error, or all."""
        return {"error": self.one("error")} if "error" in self.fields else {"everything": True}

    def bulk(self, change: Callable[..., Any], **options: Any) -> None:
        """Change as many as can be within BULK_S, once they are known."""

        def progress(done: int, _: int) -> None:
            self.count, self.until = done, self.until or time.monotonic() + BULK_S
            if time.monotonic() > self.until:
                raise _TimeUp

        with suppress(_TimeUp):
            change(**self.many, on_progress=progress, **options)


def skip(asked: Asked) -> object:
    """Always as a dead letter: nothing is lost by a click. In a sequence, the missing numbers that were seen."""
    if "first" not in asked.fields:
        return asked.client.skip(**asked.message, dead_letter=True)
    found = asked.client.explain(asked.all("g"))
    if found.reason != "gap" or str(found.fields.get("first")) != asked.one("first"):
        raise SequencerError("gap_changed", group=found.group)
    return asked.client.skip(found.group, dead_letter=True)  # if the gap is gone by now, at least no message is


def answer(asked: Asked) -> object:
    """For all unresolved steps of a message: of each its `step`, the `attempt` that was seen, `answer` and `result`."""
    given = [asked.all(name) for name in ("step", "attempt", "answer", "result")]
    try:
        steps = [*zip(*given, strict=True)]
        attempts = {step: int(attempt) for step, attempt, *_ in steps}
        done = {step: orjson.loads(result.strip() or "null") for step, _, said, result in steps if said == "done"}
    except ValueError as error:
        raise ConfigurationError("answer_invalid", error=str(error)) from error
    again = [step for step, _, said, _ in steps if said == "again"]
    change = asked.client.redrive if "dead" in asked.fields else asked.client.resume
    return change(**asked.message, by=asked.who, done=done, again=again, attempts=attempts)


def skip_many(asked: Asked) -> None:
    _check_count(asked, asked.client.skip_many(**asked.many, dry_run=True).chosen)
    asked.bulk(asked.client.skip_many)


def purge_many(asked: Asked) -> None:
    """For good, so the number is typed."""
    _check_count(asked, asked.client.count_dead(error=asked.many.get("error")))
    asked.count = asked.client.purge(**asked.many)


VERBS: dict[str, Callable[[Asked], object]] = {
    "resume": lambda asked: asked.client.resume(**asked.message),
    "skip": skip,
    "unskip": lambda asked: asked.client.unskip(**asked.message),
    "cancel": lambda asked: asked.client.cancel(**asked.message),
    "reschedule": lambda asked: asked.client.reschedule(**asked.message, delay=asked.one("delay")),
    "redrive": lambda asked: asked.client.redrive(**asked.message),
    "purge": lambda asked: asked.client.purge(**asked.message),
    "answer": answer,
    "pause": lambda asked: asked.client.pause(asked.fields.get("g")),
    "unpause": lambda asked: asked.client.unpause(asked.fields.get("g")),
    "probe": lambda asked: asked.client.probe_outage(),
    "resume-many": lambda asked: asked.bulk(asked.client.resume_many),
    "skip-many": skip_many,
    "redrive-many": lambda asked: asked.bulk(asked.client.redrive, rate=REDRIVE_RATE),
    "purge-many": purge_many,
}
"""Each returns False where nothing was to be changed."""


def _check_count(asked: Asked, now: int) -> None:
    seen = asked.one("chosen").strip().replace(",", "")
    if seen != str(now):
        raise SequencerError("count_changed", seen=seen, now=now)


async def change(request: Request) -> Response:
    if request.path_params["verb"] not in VERBS:
        raise HTTPException(404)
    typed = await body_of(request, MOST_BYTES)
    return await run_in_threadpool(_change, request, typed.decode("utf-8", "replace"))


def _change(request: Request, typed: str) -> Response:
    # What was seen, in the query, comes before what is typed.
    fields = parse_qs(typed, keep_blank_values=True) | parse_qs(request.url.query, keep_blank_values=True)
    asked, verb = Asked(client_of(request), name_of(request), fields), request.path_params["verb"]
    try:
        is_changed = VERBS[verb](asked) is not False
    except OutcomeUnknown as error:
        _log(asked, verb, error=str(error))
        raise
    if is_changed:
        _log(asked, verb)
    sampler_of(request).changed()
    name, _, page = verb.partition("-")
    about = {"do": name, "error": fields.get("error")} if page else {"g": fields.get("g")}
    said = "unchanged" if not is_changed else page or verb
    page = page or ("group" if "g" in fields else "")
    to = href(request.scope.get("root_path", ""), "q", asked.client.queue, page, **about, said=said)
    return RedirectResponse(to.unescape(), 303)


def _log(asked: Asked, verb: str, **fields: Any) -> None:
    fields |= {"action": verb, "who": asked.who, "count": asked.count, "group": asked.fields.get("g")}
    fields |= {"id": asked.fields.get("id", [None])[0], "namespace": asked.client.options.namespace}
    log_event(event("operator", asked.client.queue, **{name: one for name, one in fields.items() if one is not None}))


routes = [Route("/q/{queue}/{verb}", change, methods=["POST"])]
