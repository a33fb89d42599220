"""Why a group does not move: every reason, with its wording and the commands that make it move; and the wording for
groups leased for too long, and queues without consumers. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..values.message import PastAttempt
from ..values.views import as_json
from .commands import end_command, with_commands
from .refusals import without_commands
from .templates import NO_COMMANDS, Commands, Fields, Wording, fill, filled_commands
from .words import numbers

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
    def _known(self) -> Fields:
        return {**self.fields, "group": self.group, "head": self.head_id}

    @property
    def commands(self) -> dict[str, str]:
        """Commands that make it move or show more: purpose -> command line."""
        return filled_commands(COMMANDS.get(self.reason, NO_COMMANDS), self._known)

    @property
    def sentence(self) -> str:
        """One sentence for people, without commands."""
        return without_commands(self._whole)

    @property
    def text(self) -> str:
        """The sentence, and the commands."""
        return with_commands(self._whole + fill(BEFORE_COMMANDS.get(self.reason, ""), self._known), self.commands)

    @property
    def _whole(self) -> str:
        return fill("group {group} ", self._known) + self._wording

    @property
    def _wording(self) -> str:
        text = fill(WORDINGS[self.reason], self._known)
        return text if self.then is None else f"{text}; apart from that, it {self.then._wording}"

    def as_json(self) -> dict[str, Any]:
        """What `explain --json` prints."""
        names = ("group", "reason", "text", "commands", "moves_in_s", "backlog", "head_id", "fields", "log", "then")
        return {name: as_json(getattr(self, name)) for name in names}


def _due(fields: Fields) -> str:
    if "until" in fields:
        return "is deferred until {until:moment} by a rule that no longer holds"
    if fields.get("expired_owner"):
        return "is due: the lease of {expired_owner} expired {waits_s:.1f} s ago; it waits for a consumer"
    return "has been due for {waits_s:.1f} s and waits for a free consumer"


def _backoff(fields: Fields) -> str:
    tried = "{attempt:failed attempt} of {id}"
    if fields["outages"]:
        tried = "{outages:outage} of {id}, "
        tried += "the last counted as attempt {attempt}" if fields["is_counted"] else "not counted as attempts"
    return f"backs off until {{until:moment}} after {tried} ({{error}})"


def _gap(fields: Fields) -> str:
    missing = f"{numbers(fields['first'], fields['last'])}, missing before {{number}} ({{head}})"
    if "until" not in fields:
        return f"is parked: it waits for {missing}, and gap_timeout has passed; append what is missing"
    then = "then parks" if fields["on_gap"] == "park" else "then goes on without"
    return f"waits for {missing}, until {{until:moment}}, and {then}; append what is missing"


def no_consumers(fields: Fields) -> str:
    """Template of that there are no consumers, for the fields of a NoConsumers."""
    seen = {0: "no consumer is connected", None: "connections are unknown (no right to CLIENT LIST)"}
    return (
        "no consumer is working: {groups:group} due since {since:moment} ({waits_s:.0f} s), and none is in "
        "progress{last_owner:?; the lease of {last_owner} expired at {last_until:moment}}; "
    ) + seen.get(
        fields["connections"], "{connections:consumer connection} open, but nothing is claimed (check their log)"
    )


ENDING = "if its handler hangs, kill that consumer; if it is already gone, its lease expires by itself"
WORDINGS: Mapping[str, Wording] = {
    "nothing": "has no messages",
    "due": _due,
    "leased": "has been leased by {owner} for {held_s:.1f} s, until {until:moment} unless renewed; it moves when "
    "{head} is handled{is_paused:?; then it stays paused}{steps:?; its steps: {steps}}{is_long:?; that is long: set "
    f"--handler-timeout}}; {ENDING}",
    "backoff": _backoff,
    "delayed": "waits for its first message, {head}, which is delayed until {until:moment}",
    "window": "waits for stragglers: {head} is handled {window_s:g} s after its arrival, at {until:moment}",
    "gap": _gap,
    "parked": "is parked on {id}{attempt:? after {attempt:failed attempt}} ({error})",
    "unresolved step": "is parked on {id}: {message}",
    "paused": "is paused",
    "queue paused": "waits because the whole queue is paused",
    "outage": "waits, like the whole queue, for an outage to end: handlers have failed with {error} since "
    "{since:moment}; next probe at {until:moment}",
    "no consumers": lambda fields: "has been due for {waits_s:.1f} s; " + no_consumers(fields),
    "broken": "is broken ({what})",
}

BEFORE_COMMANDS: Mapping[str, Wording] = {
    "leased": "; to drop {head} instead, run these in order, the skip once the lease has expired"
}


def _due_commands(fields: Fields) -> Mapping[str, str]:
    if "until" in fields:
        return {"retry": "sequencer resume QUEUE GROUP"}
    if fields.get("is_droppable"):
        return _DROP
    return {"inspect": "sequencer consumers QUEUE"}


def _dropping(fields: Fields) -> Mapping[str, str]:
    """What drops a message that hangs in a consumer. Without the pause another one takes it over, and hangs."""
    steps = {"kill": end_command(fields["owner"]), **_DROP}
    return steps if fields["is_paused"] else {"pause": "sequencer pause QUEUE GROUP", **steps, **_UNPAUSE}


_DROP = {"skip": "sequencer skip QUEUE GROUP --id HEAD --dead-letter"}
_UNPAUSE = {"unpause": "sequencer unpause QUEUE GROUP"}
_RETRY = {"retry": "sequencer resume QUEUE GROUP"}
_SKIP = {"skip": "sequencer skip QUEUE GROUP"}
_DOCTOR = "sequencer doctor QUEUE"
CONSUME = "sequencer consume QUEUE --app MODULE:NAME"
"""A placeholder: without --app, consume would print the messages and acknowledge them."""
COMMANDS: Mapping[str, Commands] = {
    "due": _due_commands,
    "leased": _dropping,
    "backoff": _RETRY,
    "gap": _SKIP,
    "parked": {**_RETRY, **_SKIP},
    "paused": _UNPAUSE,
    "queue paused": {"unpause": "sequencer unpause QUEUE"},
    "outage": {"probe": "sequencer resume QUEUE --outage"},
    "no consumers": {"consume": CONSUME},
    "broken": lambda fields: {"inspect": _DOCTOR} if fields["what"] == "wrong type" else {"fix": f"{_DOCTOR} --repair"},
}


def service_text(pools: int, consumers: int, down: list[str]) -> str:
    """What systemd shows of a service."""
    fields = {"pools": pools, "consumers": consumers, "down": down}
    return fill("{pools:pool}, {consumers:consumer}{down:?, down: {down:list}}", fields)
