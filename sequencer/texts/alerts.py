"""The wording of alerts: conditions, their units, lines of a message, and commands that show or fix them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .commands import line
from .templates import Wording, fill

UNITS = {
    **dict.fromkeys(("wait", "lag", "no_consumers", "away", "outbox_age"), "s"),
    **dict.fromkeys(("failing", "memory"), "share"),
}
"""Unit of value and limit; any other condition is a count."""
CUT = "(Cut: the message was too long.)"
_STATES = {"open": "", "news": ", news", "again": ", still open", "resolved": ", resolved", "test": ", a test"}
WORDING: Mapping[str, Wording] = {
    # lines of a message
    "title": lambda fields: "sequencer{environment:? {environment}}{queue:? {queue}}: {kind}" + _STATES[fields["what"]],
    "text": "{text}",
    "errors": "errors: {errors:list}",
    "times": "{is_over:?It lasted {lasted_s:duration}, from {opened_at:moment} to {at:moment}}"
    "{is_over:!Since {opened_at:moment}, for {lasted_s:duration}}{now:?; now {now}}{limit:?; limit {limit}}. "
    "Namespace {namespace}, sent by {host}.",
    "item": "- {group}, id {id}, {at:moment}: {error}",
    "more": "+ {more:,} more",
    # its one sentence
    "parked": "{value:group} parked",
    "dead": "{value:dead letter}",
    "wait": "{due:group} waiting for a consumer, the first for {value:duration}",
    "outage": "an outage holds the queue back: a shared dependency is down",
    "unreachable": "shards {shards:list} can't be reached ({error}); their groups stand still",
    "no_consumers": "no consumer is working: groups have been due for {value:duration}, and none is in progress",
    "backlog": "{is_estimate:?about }{value:message} waiting",
    "lag": "the oldest head of a group is {value:duration} old",
    "history": "the history is cut short by history_cap: it covers {reaches_d:.1f} days of {window_d:.1f}",
    "failing": "{failed:,} of {attempts:attempt} failed in five minutes ({value:.0%}){is_few:?, too few to judge}",
    "memory": "the server has {value:.0%} of its maxmemory in use; when it is full, appends are refused",
    "outbox_age": "{unsent:row} of the outbox not sent, the oldest for {value:duration}: is its relay running?",
    "outbox_held": "{value:row} of the outbox refused by the queue; later rows of their groups wait",
    "pool": "consumers on {host} keep dying before a first message, for {down_s:duration} so far; check their log",
    "check": "{check}",
    "away": "the server has not answered for {away_s:duration}: {error}",
    "away over": "the server answers again; it did not for {away_s:duration}: {error}",
    "late": "already over before this could be sent: {text}",
    "test": "{host} checks that alerts reach you; nothing is wrong",
}

_INFO = "sequencer info QUEUE"
_COMMANDS = {
    "parked": "sequencer parked QUEUE --by-error",
    "dead": "sequencer dead list QUEUE",
    "wait": "sequencer groups QUEUE --state due",
    "history": "sequencer configure QUEUE",
    "memory": "sequencer doctor QUEUE",
    "unreachable": "sequencer doctor QUEUE",
    "outbox_age": "sequencer outbox status QUEUE",
    "outbox_held": "sequencer outbox held QUEUE",
    "away": "sequencer doctor QUEUE",
}
"""Condition -> what shows or fixes it; any other is shown by info."""


def alert_text(wording: str, **fields: Any) -> str:
    """One sentence or line for people."""
    return fill(WORDING[wording], fields)


def commands_for(kind: str, queue: str, namespace: str, *, app: str = "", file: str = "") -> tuple[str, ...]:
    """Commands that show or fix a condition. `app`: of the queue, where it is known; `file`: of `run`."""
    kind = kind.partition("@")[0]
    if kind in ("check", "pool"):
        return () if kind == "check" else (line("sequencer run FILE --status", {"file": [file] if file else []}),)
    template = "sequencer consume QUEUE --app APP" if app and kind == "no_consumers" else _COMMANDS.get(kind, _INFO)
    return (line(template, {"queue": queue, "namespace": namespace, "app": app}),)
