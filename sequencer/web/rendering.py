"""Pages from templates. Whatever a template shows passes `plain`, then is escaped; links keep names as they are."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from ..texts.answers import answer_text
from ..texts.changes import SAID
from ..texts.refusals import without_commands
from ..texts.words import duration, many, moment, named, plain
from ..values.version import VERSION
from ..values.views import as_json
from .charts import STATES, bar, rates

ROOM = Path(__file__).parent
TROUBLE = ("unreachable", "outage", "no_consumers")
"""What holds a queue back, as fields of QueueInfo."""
GAP = "gap"
"""Shown as the error where a missing number holds a group back, as `sequencer parked` does."""
UNRETRYABLE = (GAP, "StepUnknown", "StepResultInvalid")
"""What waits for a number, or for an operator's answer about a step, is not retried."""


def _shown(value: Any) -> Any:
    """Called for each expression of a template, before it is escaped."""
    return plain(value) if type(value) is str else value


def href(base: str, *path: str, **query: Any) -> Markup:
    """The path of a page with its query: `href(base, "q", "orders", "group", g=("7", "1"), id="e4")`.

    A value may be a list, for several of its name; None leaves it out. Names of others survive, whatever is in them.
    """
    pairs = [(name, value) for name, value in query.items() if value is not None]
    asked = urlencode(pairs, doseq=True, encoding="utf-8", errors="backslashreplace")
    where = "/".join([quote(base, safe="/"), *(quote(one, safe="") for one in path)])
    # Percent-encoded, so that nothing is left to escape but what joins the pairs.
    return Markup(f"{where}?{asked}".replace("&", "&amp;") if asked else where)


def ago(at: float) -> str:
    seconds = round(time.time() - at)
    return f"{duration(seconds)} ago" if seconds > 0 else "just now"


def count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or float(value).is_integer() else f"{value:.1f}"


def score(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def lines(text: str) -> Markup:
    """A text whose line ends are kept."""
    return Markup("\n").join(escape(plain(line)) for line in text.splitlines())


def json_line(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, default=repr)


TEMPLATES = Environment(
    loader=FileSystemLoader(ROOM / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    auto_reload=False,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FILTERS = (without_commands, duration, moment, ago, many, named, count, score, json_line, lines, bar, rates)
TEMPLATES.filters.update({one.__name__: one for one in _FILTERS})
TEMPLATES.globals.update(version=VERSION, STATES=STATES, TROUBLE=TROUBLE, UNRETRYABLE=UNRETRYABLE)
TEMPLATES.globals.update(answer_text=answer_text, as_json=as_json)


def page(request: Request, template: str, *, status: int = 200, **fields: Any) -> HTMLResponse:
    """A page for who asks: with buttons where its role is "operate"."""
    base = request.scope.get("root_path", "")

    def url(*path: str, **query: Any) -> Markup:
        return href(base, *path, **query)

    about = {
        "base": base,
        "url": url,
        "asked": {"error": None, **{name: value for name, value in request.query_params.items() if value}},
        "group": tuple(request.query_params.getlist("g")),
        "queue": request.path_params.get("queue"),
        "namespace": request.app.state.sampler.clients.namespace,
        "can_act": getattr(request.state, "role", "look") == "operate",
        "said": SAID.get(request.query_params.get("said", "")),
        "shows_bodies": getattr(request.state, "shows_bodies", False),
        **fields,
    }
    about["parts"] = TEMPLATES.get_template("parts.html").make_module(about)
    text = TEMPLATES.get_template(template).render(about)
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), status)
