"""Why a group does not move: every reason, with its wording and the commands that make it move; and the wording for
groups leased for too long, queues without consumers, and scores in several units. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..values.message import PastAttempt
from ..values.score_units import UNITS, Examples
from .commands import OWNER, command, dropping, end_command, id_option, with_commands
from .words import fill, many, moment, named, plain

Reason = Literal[
    "nothing",
    "due",
    "leased",
    "backoff",
    "delayed",
    "window",
    "gap",
    "parked",
    "unresolved step",
    "paused",
    "queue paused",
    "outage",
    "no consumers",
    "broken",
]
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a group does not move, and what would move it."""

    group: tuple[str, ...]
    reason: Reason
    moves_in_s: float | None
    """Seconds until it may move by itself; None when something has to be done."""
    backlog: int
    head_id: str | None
    fields: Fields = field(default_factory=dict)
    """Details of the reason, with `queue` and `namespace`. Times are in seconds since 1970."""
    log: tuple[PastAttempt, ...] = ()
    """The last five failed attempts of its head, the newest last."""
    then: Explanation | None = None
    """For a paused group: what it would wait for without the pause."""

    @property
    def commands(self) -> dict[str, str]:
        """Commands that make it move or show more: purpose -> command line."""
        return dict(COMMANDS[self.reason](self)) if self.reason in COMMANDS else {}

    @property
    def text(self) -> str:
        """One sentence for people, with the commands."""
        return with_commands(fill("group {group} ", {"group": self.group}) + self._wording, self.commands)

    @property
    def _wording(self) -> str:
        wording, fields = WORDINGS[self.reason], {"head": self.head_id, **self.fields}
        text = fill(wording, fields) if isinstance(wording, str) else wording(fields)
        return text if self.then is None else f"{text}; after that, it {self.then._wording}"

    def as_json(self) -> dict[str, Any]:
        """What `explain --json` prints."""
        said: dict[str, Any] = {name: getattr(self, name) for name in ("group", "reason", "text", "commands")}
        said |= {name: getattr(self, name) for name in ("moves_in_s", "backlog", "head_id", "fields")}
        log = [{"attempt": one.attempt, "at": one.at, "error": one.error} for one in self.log]
        return {**said, "log": log, "then": self.then.as_json() if self.then else None}


def _due(fields: Fields) -> str:
    if "until" in fields:
        return fill("is deferred until {until:moment} by a rule that no longer holds", fields)
    if fields.get("expired_owner"):
        return fill("is due: the lease of {expired_owner} expired {waits_s:.1f} s ago; it waits for a consumer", fields)
    text = fill("has been due for {waits_s:.1f} s and waits for a free consumer", fields)
    if longest := fields.get("longest"):
        text += fill("; longest in progress: group {group}, for {held_s:.1f} s, in {owner}", longest)
    return text


def _leased(fields: Fields) -> str:
    text = fill("has been leased by {owner} for {held_s:.1f} s, until {until:moment} unless renewed", fields)
    text += fill("; it moves when {head} is handled", fields) + (
        "; then it stays paused" if fields["is_paused"] else ""
    )
    text += fill("; its steps: {steps}", fields) if fields.get("steps") else ""
    text += f"; {(advice if fields['is_long'] else ending)(fields['owner'])}"
    return text + fill("; to drop {head} instead, run these in order, the skip once the lease has expired", fields)


def _backoff(fields: Fields) -> str:
    tried = "{attempt:failed attempt} of {id}"
    if fields["outages"]:
        tried = "{outages:outage} of {id}, "
        tried += (
            "the last of them counted as attempt {attempt}," if fields["is_counted"] else "not counted as attempts,"
        )
    return fill(f"backs off until {{until:moment}} after {tried} ({{error}})", fields)


def _gap(fields: Fields) -> str:
    which = "number {first}" if fields["first"] == fields["last"] else "numbers {first} to {last}"
    missing = f"{which}, missing before {{number}} ({{head}})"
    if "until" not in fields:
        return fill(f"is parked: it waits for {missing}, and gap_timeout has passed; append what is missing", fields)
    then = "then parks" if fields["on_gap"] == "park" else "then goes on without"
    return fill(f"waits for {missing}, until {{until:moment}}, and {then}; append what is missing", fields)


def _parked(fields: Fields) -> str:
    return fill(
        "is parked on {id}" + (" after {attempt:failed attempt}" * bool(fields["attempt"])) + " ({error})", fields
    )


WORDINGS: Mapping[str, str | Callable[[Fields], str]] = {
    "nothing": "has no messages; append one",
    "due": _due,
    "leased": _leased,
    "backoff": _backoff,
    "delayed": "waits for its first message, {head}, which is delayed until {until:moment}",
    "window": "waits for stragglers: {head} is handled {window_s:g} s after its arrival, at {until:moment}",
    "gap": _gap,
    "parked": _parked,
    "unresolved step": "is parked on {id}: {message}",
    "paused": "is paused",
    "queue paused": "waits because the whole queue is paused",
    "outage": "waits, like the whole queue, for an outage to end: handlers have failed with {error} since "
    "{since:moment}; next probe at {until:moment}",
    "no consumers": lambda fields: f"has been due for {fields['waits_s']:.1f} s; {no_consumers_text(fields)}",
    "broken": lambda fields: f"is broken: {fill(BROKEN[fields['what']], fields)}",
}
BROKEN: Mapping[str, str] = {
    "order type": "its order key has the wrong type",
    "body type": "its body key has the wrong type",
    "sizes": "its order holds {order:message} and its body {body:,}",
    "unscheduled": "it has {order:message} but is not in the schedule, so no consumer sees it",
    "empty": "it is in the schedule without a message",
    "lease of nothing": "it has a lease and no message",
    "failure of nothing": "it has a failure and no message",
    "lease": "its lease can't be read",
    "stamp": "its first message has no stamp: {head!r}",
    "record": "its head {head} has no record in the body",
    "leased and parked": "it is leased and parked at once",
    "parked": "it is parked without a failure or a missing number to wait for",
    "paused": "it is held as paused, but is not among the paused groups",
}
"""The invariant that does not hold."""


def _line(of: Explanation, name: str, *values: str, options: list[str] | None = None) -> str:
    return command(name, of.fields["queue"], *values, namespace=of.fields["namespace"], options=options or [])


def _due_commands(of: Explanation) -> Mapping[str, str]:
    if "until" in of.fields:
        return {"retry": _line(of, "resume", *of.group)}
    if of.fields.get("is_droppable"):
        drop = _line(of, "skip", *of.group, options=[*id_option(of.head_id or ""), "--dead-letter"])
        return {"skip": drop}
    longest = of.fields.get("longest")
    return {"inspect": _line(of, "explain", *longest["group"]) if longest else _line(of, "info")}


def _dropping(of: Explanation) -> Mapping[str, str]:
    owner, queue, namespace, is_paused = (of.fields[name] for name in ("owner", "queue", "namespace", "is_paused"))
    return dropping(owner, of.head_id or "", of.group, queue, namespace, is_paused)


COMMANDS: Mapping[str, Callable[[Explanation], Mapping[str, str]]] = {
    "due": _due_commands,
    "leased": _dropping,
    "backoff": lambda of: {"retry": _line(of, "resume", *of.group)},
    "gap": lambda of: {"skip": _line(of, "skip", *of.group)},
    "parked": lambda of: {
        "retry": _line(of, "resume", *of.group),
        "skip": _line(of, "skip", *of.group),
    },
    "paused": lambda of: {"unpause": _line(of, "unpause", *of.group)},
    "queue paused": lambda of: {"unpause": _line(of, "unpause")},
    "outage": lambda of: {"probe": _line(of, "resume", options=["--outage"])},
    "no consumers": lambda of: {"consume": start_consumers(of.fields["queue"], of.fields["namespace"])},
    "broken": lambda of: {"fix": _line(of, "doctor", options=["--repair"])},
}

APP = ["--app", "MODULE:NAME"]
"""A placeholder: without --app, consume would print the messages and acknowledge them."""


def advice(owner: str) -> str:
    """What helps when a consumer has held a group for too long."""
    return f"that is long; {ending(owner)}; set --handler-timeout to prevent that"


def ending(owner: str) -> str:
    """How to end a handler that hangs, in a sentence."""
    found = OWNER.fullmatch(owner)
    end = f"kill that process (on {found['host']}: {end_command(owner)})" if found else "kill that consumer"
    return f"if its handler hangs, {end}; if the process is already gone, the lease expires by itself"


def no_consumers_text(fields: Mapping[str, Any]) -> str:
    """That there are no consumers, from the fields of a NoConsumers."""
    groups, since, last, connections = (fields[name] for name in ("groups", "since", "last_owner", "connections"))
    due = f"{many(groups, 'group')} {'is due,' if groups == 1 else 'are due, the first'} since {moment(since)}"
    text = f"no consumer is working: {due} ({fields['waits_s']:.0f} s), and none is in progress"
    if last:
        text += f"; the lease of {plain(last)} expired at {moment(fields['last_until'] or 0.0)}"
    if connections:
        return f"{text}; {many(connections, 'consumer connection')} open, but nothing is claimed (check their log)"
    seen = "no consumer is connected" if connections == 0 else "connections are unknown (no right to CLIENT LIST)"
    return f"{text}; {seen}"


def start_consumers(queue: str, namespace: str) -> str:
    """The command that starts consumers."""
    return command("consume", queue, namespace=namespace, options=APP)


def import_hangs(limit_s: float) -> str:
    """Why a process that imports an app is ended."""
    return f"its import did not finish within {limit_s:g} s (start_timeout)"


def mixed(examples: Examples) -> str:
    """That scores are in several units, with an example of each."""
    units = ", ".join(
        f"{name} (group {named(examples[name][0])}: {examples[name][1]:.17g})" for _, name in UNITS if name in examples
    )
    return f"scores look like times in different units: {units}"
