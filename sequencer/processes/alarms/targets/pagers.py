"""PagerDuty and Opsgenie: an incident of ours is one of theirs, found by its key; "resolved" closes it there.

They are not left to apprise: its 2.3.0 closes an Opsgenie alert only in the process that opened it, and elsewhere sends
nothing and says success. For PagerDuty it makes a whole text the summary, of which that takes 1,024 characters.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from ..notice import DeliveryFailed, Notice
from .webhook import Answer, HookUrl, hidden, post, status_text

PagerKind = Literal["pagerduty", "opsgenie"]
URLS: dict[PagerKind, str] = {
    "pagerduty": "https://events.pagerduty.com/v2/enqueue",
    "opsgenie": "https://api.opsgenie.com/v2/alerts",
}
"""Where they are asked unless a table says otherwise, as for Europe."""
KEY_CHARACTERS = 255
"""Of a key at PagerDuty."""
TITLE_CHARACTERS = {"pagerduty": 1024, "opsgenie": 130}
ACCEPTED = 202


class Request(NamedTuple):
    """What a pager is sent."""

    body: dict[str, Any]
    behind: str = ""
    """Behind the path of the URL, with a query."""


def incident_key(notice: Notice) -> str:
    """The incident's own key, or a hash of it where that is too long."""
    key = notice.incident
    return key if len(key) <= KEY_CHARACTERS else hashlib.sha256(key.encode()).hexdigest()


def request(kind: PagerKind, notice: Notice, secret: str) -> Request:
    """To open the incident there, or to add to it; with "resolved" to close it."""
    key, is_over = incident_key(notice), notice.what == "resolved"
    title, text = notice.title[: TITLE_CHARACTERS[kind]], notice.chat_text()
    if kind == "pagerduty":
        body = {"routing_key": secret, "event_action": "resolve" if is_over else "trigger", "dedup_key": key}
        about = {
            "summary": title,
            "source": notice.host,
            "severity": "info" if notice.what == "test" else "critical",
            "component": notice.queue,
            "class": notice.kind,
            "custom_details": {"text": text},
        }
        return Request({**body, "client": "sequencer", "payload": about})
    if is_over:
        return Request({"source": notice.host, "note": text}, f"/{quote(key, safe='')}/close?identifierType=alias")
    priority = {"priority": "P5"} if notice.what == "test" else {}
    about = {"message": title, "alias": key, "description": text, "source": notice.host, "entity": notice.queue}
    return Request({**about, **priority, "tags": ["sequencer", notice.kind]})


def refusal(kind: PagerKind, answer: Answer) -> str:
    """Why the pager did not take it; "" where it did."""
    try:
        said: Any = json.loads(answer.body)
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    is_taken = answer.status == ACCEPTED and (kind == "opsgenie" or said.get("status") == "success")
    words = [str(said[name]) for name in ("status", "message", "errors") if name in said]
    return "" if is_taken else ": ".join([status_text(answer.status), *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """A service that calls people."""

    name: str
    kind: PagerKind
    url: HookUrl
    secret: str = field(repr=False)
    timeout_s: float

    def send(self, notice: Notice) -> None:
        """Raises DeliveryFailed, with what the pager said."""
        body, behind = request(self.kind, notice, self.secret)
        headers = {"Authorization": f"GenieKey {self.secret}"} if self.kind == "opsgenie" else {}
        answer = post(self.url, json.dumps(body).encode(), headers, self.timeout_s, behind=behind, reads=True)
        if said := refusal(self.kind, answer):
            raise DeliveryFailed(hidden(said, (*self.url.secrets, self.secret)))
