"""The search: a group by its parts, a message by its group and id, or by its id alone.

It reads what people have at hand: `1002 77`, `"a b" 7`, a JSON list, each perhaps followed by an id, or a line
`sequencer explain ...` of a log. Groups are asked for by name, at a few commands for each queue. An id alone is found
by a walk over all groups of a queue: its price stands beside it, it is asked for by a click, and one runs at a time.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
from contextlib import suppress
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..client import Sequencer
from ..errors import InvalidMessage, SequencerError
from .rendering import href, page

MOST_CHARACTERS = 2_000
US_A_GROUP = 3
"""Microseconds: what a walk over all groups takes for each, measured at a million."""
DEAD_SHOWN = 20
_walking = threading.Lock()
_ESCAPED = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))")
_SUBCOMMANDS = {"dead", "alerts"}
_FLAGS = {"--json", "--all", "--dead-letter", "--yes", "--dry-run", "--outage", "--by-error", "--discard", "--repair"}


class Wanted(NamedTuple):
    """One reading of what was typed."""

    group: tuple[str, ...]
    id: str | None = None
    queue: str | None = None
    """Where a command line names one."""


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
    words = _words(text)
    if words[:1] == ["sequencer"]:
        return _of_command(words[1:])
    with suppress(ValueError, RecursionError):
        parts, end = json.JSONDecoder().raw_decode(text)
        if isinstance(parts, list):
            group, rest = tuple(str(part) for part in parts), _words(text[end:])
            return [Wanted(group, rest[0]) if rest else Wanted(group)] if group else []
    found = [Wanted(tuple(words)), *([Wanted(tuple(words[:-1]), words[-1])] if len(words) > 1 else []), Wanted((text,))]
    return list(dict.fromkeys(one for one in found if all(one.group) and one.group))


def _words(text: str) -> list[str]:
    """As a shell reads them, also `$'a\\x0ab'`; a quote that is not closed is a quote."""
    spelled = list[str]()

    def keep(match: re.Match[str]) -> str:
        spelled.append(_ESCAPED.sub(_byte, match[1].encode()).decode("utf-8", "replace"))
        return f"\x01{len(spelled) - 1}\x02"

    with suppress(ValueError):
        words = shlex.split(re.sub(r"\$'((?:[^'\\]|\\.)*)'", keep, text))
        return [re.sub("\x01(\\d+)\x02", lambda match: spelled[int(match[1])], word) for word in words]
    return text.split()


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)]) if match[1] else match[2]


def _of_command(words: list[str]) -> list[Wanted]:
    """`explain QUEUE PART...`, or any other that names a group, as errors and the log show them."""
    values, id, rest = list[str](), None, iter(words)
    for word in rest:
        if word == "--":
            values += rest
        elif word.startswith("--"):
            name, has_value, value = word.partition("=")
            value = value if has_value else "" if name in _FLAGS else next(rest, "")
            id = value if name == "--id" else id
        else:
            values.append(word)
    queue, *group = values[2 if values[:1] and values[0] in _SUBCOMMANDS else 1 :] or [""]
    return [Wanted(tuple(group), id, queue)] if group and all(group) else []


def find(request: Request) -> Response:
    text, queue = request.query_params.get("q", "").strip(), request.query_params.get("queue")
    if queue is not None:
        return _by_id(request, text, queue)
    wanted = readings(text)
    names = request.app.state.queues.names()
    hits = [hit for name in names for hit in _hits(request, name, wanted)]
    hits = hits or [hit for name in names for hit in _dead(request, name, wanted)]
    if len(hits) == 1:
        base, (name, group, id, _) = request.scope.get("root_path", ""), hits[0]
        return RedirectResponse(href(base, "q", name, "message" if id else "group", g=group, id=id).unescape(), 303)
    return _page(request, text, hits, is_walked=False)


def _by_id(request: Request, text: str, queue: str) -> Response:
    client: Sequencer = request.app.state.queues.client(queue)
    if not _walking.acquire(blocking=False):
        raise SequencerError("search_runs")
    try:
        found = client.find(text)
    finally:
        _walking.release()
    return _page(request, text, [Hit(queue, one.group, one.id, one) for one in found], is_walked=True)


def _page(request: Request, text: str, hits: list[Hit], *, is_walked: bool) -> Response:
    samples = request.app.state.sampler.overview().queues
    groups = {one.queue: one.info.groups for one in samples if one.info and text and not is_walked}
    prices = {queue: (count, max(0.001, count * US_A_GROUP / 1e6)) for queue, count in groups.items()}
    return page(request, "find.html", asked=text, hits=hits, prices=prices, is_walked=is_walked)


def _hits(request: Request, name: str, wanted: list[Wanted]) -> list[Hit]:
    found = list[Hit]()
    for group, id, queue in wanted:
        if queue not in (None, name):
            continue
        client: Sequencer = request.app.state.queues.client(name)
        with suppress(InvalidMessage):  # what no group or id can be
            if id is None and (explained := client.explain(group)).reason != "nothing":
                found.append(Hit(name, group, None, explained))
            # For an id that is unknown, the names of all dead letters are read: only where no group was found.
            elif id is not None and not found and (message := client.get(group, id)):
                found.append(Hit(name, group, id, message))
    return found


def _dead(request: Request, name: str, wanted: list[Wanted]) -> list[Hit]:
    """Dead letters of a group in which nothing is pending: where late messages are, for one."""
    client: Sequencer = request.app.state.queues.client(name)
    found = list[Hit]()
    for group, id, queue in wanted:
        if id is None and queue in (None, name):
            with suppress(InvalidMessage):
                letters = client.dead_page(group, limit=DEAD_SHOWN).items
                found += [Hit(name, group, one.message.id, one.info) for one in letters]
    return found


routes = [Route("/find", find)]
