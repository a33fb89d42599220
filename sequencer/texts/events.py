"""What is told to people and to what they alert with: every event by name, with its fields. Pure.

EVENTS is the whole list. A record of the logger `sequencer` carries an event's name as `event`, its queue as `queue`,
and its fields (`extra=` of logging); a line of text says them in one sentence that begins with the queue. No event
holds a body or a header. An error's text is in one line and cut; its traceback is whole. A few lines of the log are no
events: they answer a Ctrl-C, are at INFO or DEBUG, or, at WARNING, tell of something that its client goes on without.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..texts.words import plain

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR


@dataclass(frozen=True, slots=True)
class Kind:
    """What all events of a name have in common."""

    level: int
    meaning: str
    fields: tuple[str, ...] = ()
    """Their names, with the unit at the end: `_s` is seconds."""
    is_observed: bool = False
    """Whether observers (`Sequencer.observe`) are told."""


_GROUP = ("group", "owner")
_MESSAGE = (*_GROUP, "id", "attempt", "attempts", "error_type", "error")
_FIXED = ("see", "fix")
_BEGUN = ("in_progress", "see")
_DONE = ("handled", "failed", "outages", "lost", "parked", "dead", "dropped")
FIELDS: Mapping[str, str] = {
    "group": "the group's parts, as a list of texts",
    "owner": "name of the consumer that tells it",
    "id": "of the message",
    "attempt": "how often the message was tried",
    "attempts": "how often it may be tried",
    "error_type": "class of the error",
    "error": "text of the error, in one line",
    "retry_in_s": "seconds until the next attempt; none if another consumer decides that",
    "outage": "whether it is an outage, which counts no attempt",
    "since": "when it began, in seconds since 1970",
    "lasted_s": "how long it lasted, in seconds",
    "probes": "how many probes of it failed",
    "late": "whether the message was given up because it was late",
    "step": "name of the step",
    "steps": "names of the steps",
    "ledger": "what became of its steps, as JSON",
    "again": "command that runs the step again, where nothing happened",
    "see": "command that shows what is wrong",
    "first": "command that comes before the one that fixes it",
    "fix": "command that fixes it",
    "skip": "command that fixes it by giving up the message",
    "fix_all": "command that fixes all parked groups of the queue, where there are more",
    "fix_same_error": "command that fixes those of them that are parked by this error",
    "runs_s": "for how long, in seconds",
    "in_progress": "group and id of the message that the consumer began last; empty between batches",
    "number": "of the first message that is there",
    "first_missing": "first number that is missing before it",
    "last_missing": "last number that is missing before it",
    "until": "when the wait ends, in seconds since 1970",
    "expired_owner": "name of the consumer whose lease ran out",
    "token": "of the lease",
    "groups": "how many groups",
    "tried": "group and id of that of their first messages that was begun most often; empty if none was",
    "away_s": "how long the server was away, in seconds",
    "server": "the server, without its password",
    "app": "what handles the messages",
    "processes": "how many consumers the service keeps",
    "lease_s": "time of a lease, in seconds",
    "version": "of sequencer",
    "near": "the queue that was perhaps meant; empty if no name is near",
    "make": "command that appends a first message",
    "consumer_pid": "process id of the consumer",
    "other_pid": "process id of the other master",
    "ended_by": "how the consumer ended: an exit status or a signal",
    "deaths": "how often in a row",
    "lived_s": "how long the consumer lived, in seconds",
    "stage": "1: what runs is finished; 2: it is interrupted; 3: it is killed",
    "consumers": "how many consumers run",
    "why": "the reason",
    "file": "path of the file that says what runs",
    "said": "what the check returned",
    "target": "name of a target of alerts",
    "kind": "of the incident: parked, dead, wait, ...",
    "lines": "how many lines of the log",
    "observer": "name of the callback",
    "seconds": "how long the service ran",
    "handled": "messages handled",
    "failed": "attempts that failed",
    "outages": "how many of them by an outage",
    "lost": "leases lost",
    "parked": "groups parked",
    "dead": "messages set aside as dead letters",
    "dropped": "messages dropped",
    "started": "consumers that were started",
    "died": "consumers that died",
    "killed": "consumers that the service killed",
    "unreported": "consumers that ended without a last report: what they did in their last second is not counted",
    "what": "what was being done; of an alert open, news, again or resolved",
    "policy": "name of the policy",
    "before": "what it was",
    "now": "what it is now",
    "shards": "how many shards the queue has",
    "suppressed": "how many events of this name the line stands for",
    "errors": "how many of them by class of the error, the ten most frequent",
}
"""What each field says."""

EVENTS: Mapping[str, Kind] = {
    "message failed": Kind(
        WARNING, "one attempt failed; the message is retried", (*_MESSAGE, "retry_in_s", "outage"), True
    ),
    "group parked": Kind(
        ERROR,
        "the group stands still until somebody resumes it: its first message failed for the last time, or a number "
        "before it did not come in time",
        (*_MESSAGE, *_FIXED, "again", "skip", "fix_all", "fix_same_error", "number", "first_missing", "last_missing"),
        True,
    ),
    "dead letter": Kind(
        ERROR, "a message was set aside; its group goes on", (*_MESSAGE, *_FIXED, "again", "late"), True
    ),
    "outage began": Kind(
        ERROR,
        "what all handlers need is not there: the queue, or a shard of it, is held back until a probe gets through",
        ("owner", "error_type", "error", "since", "retry_in_s", *_FIXED),
        True,
    ),
    "outage over": Kind(WARNING, "a probe got through: the queue goes on", ("owner", "lasted_s", "probes"), True),
    "message dropped": Kind(
        ERROR, "a message was given up for good; its group goes on", (*_MESSAGE, "late", "ledger"), True
    ),
    "step failed": Kind(WARNING, "a step of a message, or its check, raised", (*_MESSAGE, "step"), True),
    "finished with failures": Kind(
        WARNING, "a message is done, but for optional steps that failed", (*_GROUP, "id", "steps"), True
    ),
    "step missing": Kind(
        WARNING,
        "a message has a kind, or an open step, that this version of the program lacks: it waits for another",
        (*_GROUP, "id", "error", "retry_in_s"),
    ),
    "message gone": Kind(
        ERROR,
        "a message was removed or replaced while its steps ran; what they did is told here",
        (*_GROUP, "id", "ledger"),
    ),
    "message released": Kind(
        WARNING, "a handler was interrupted; its message is handled again, uncounted", (*_GROUP, "id")
    ),
    "handler runs": Kind(
        WARNING,
        "a handler runs for 10 s, and three times as long as any before; for a minute; or a stop waits for it; told "
        "again as its time doubles",
        (*_GROUP, "id", "runs_s", *_FIXED),
    ),
    "handler stuck": Kind(
        ERROR,
        "a handler ran out of its time, was interrupted and goes on; its lease is not renewed any more",
        (*_GROUP, "id", "runs_s", *_FIXED),
    ),
    "gap wait": Kind(
        WARNING,
        "a group of a sequence waits for a number that is missing",
        (*_GROUP, "id", "number", "first_missing", "last_missing", "until", *_FIXED),
    ),
    "group broken": Kind(ERROR, "a group was parked: others changed its keys", (*_GROUP, "error", *_FIXED), True),
    "lease expired": Kind(
        WARNING, "a consumer died or stood still; another has its group", (*_GROUP, "expired_owner", "id", "attempt")
    ),
    "mixed scores": Kind(WARNING, "a consumer met scores in several units, once", ("owner", "see", "fix")),
    "lease lost": Kind(WARNING, "this consumer stood still for longer than its lease", (*_GROUP, "token")),
    "answer repeated": Kind(INFO, "a repeated acknowledgement was refused; its first attempt may have arrived", _GROUP),
    "server lost": Kind(WARNING, "the server can't be reached", ("owner", "error")),
    "server back": Kind(WARNING, "the server is there again", ("owner", "away_s")),
    "leases not kept": Kind(ERROR, "renewing leases beside a handler failed", ("owner", "error_type", "error")),
    "groups not released": Kind(WARNING, "a consumer ended without releasing its groups", ("owner", "error")),
    "failure not recorded": Kind(WARNING, "the server was not told that a message failed", (*_GROUP, "error")),
    "service started": Kind(INFO, "the service runs", ("server", "app", "processes", "lease_s", "version")),
    "queue unused": Kind(
        WARNING, "nobody has appended to the queue; perhaps its name is wrong", ("near", "make", "fix")
    ),
    "consumer died": Kind(
        WARNING, "a consumer ended as it should not", ("consumer_pid", "ended_by", "lived_s", *_BEGUN)
    ),
    "consumer starts again": Kind(INFO, "a place is empty until then", ("retry_in_s",)),
    "service gives up": Kind(ERROR, "the service ends: nobody gets to work", ("deaths", "why")),
    "consumer can't start": Kind(ERROR, "no process could be started", ("error",)),
    "service stopping": Kind(INFO, "the service was told to stop", ("stage", "consumers")),
    "consumer killed": Kind(WARNING, "the service killed a consumer", ("consumer_pid", "why", *_BEGUN)),
    "expired leases": Kind(
        WARNING, "groups waited for the leases of a dead consumer", ("expired_owner", "groups", "tried")
    ),
    "output blocked": Kind(WARNING, "nobody reads what consumers print"),
    "lines lost": Kind(WARNING, "lines of the log could not be written", ("lines", "error")),
    "service ended": Kind(
        INFO,
        "the service ended: what the consumers of this run did, by their reports",
        ("seconds", *_DONE, "started", "died", "killed", "unreported"),
    ),
    "consumer can't work": Kind(ERROR, "a consumer ends, and says why", ("error_type", "error")),
    "pool down": Kind(
        ERROR, "no consumer of the queue gets to work; retried; other queues go on", ("deaths", "why", "retry_in_s")
    ),
    "pool back": Kind(WARNING, "consumers of the queue get to work again", ("lasted_s",)),
    "pool scaled": Kind(INFO, "the queue gets more consumers, or fewer", ("before", "now", "why")),
    "runs already": Kind(WARNING, "another master runs the same file on this host", ("file", "other_pid")),
    "consumer overdue": Kind(
        WARNING,
        "a consumer is too old and did not end: its message is interrupted, which counts as an attempt",
        ("consumer_pid", "lived_s", *_BEGUN),
    ),
    "service reloading": Kind(INFO, "the file is read again, and consumers are replaced one by one", ("file",)),
    "service reloaded": Kind(INFO, "all consumers are of the new file and the new code", ("file",)),
    "reload failed": Kind(ERROR, "the file or the code is wrong; the consumers of before go on", ("error",)),
    "check says": Kind(WARNING, "the queue's own check found something", ("said",)),
    "alert sent": Kind(INFO, "a target of alerts took a message", ("target", "kind", "what")),
    "alert not sent": Kind(
        ERROR, "a target of alerts took no message; told once, until it takes one", ("target", "error")
    ),
    "output closed": Kind(INFO, "whoever read the printed lines is gone; the service ends"),
    "supervisor trouble": Kind(ERROR, "something unforeseen; the service goes on", ("what", "error_type", "error")),
    "policy changed": Kind(
        WARNING, "a client set another policy for the queue than the server had", ("policy", "before", "now")
    ),
    "queue new": Kind(
        WARNING,
        "a client used a queue that was not there, so it was made; at INFO where no other has a name like it",
        ("near", "first", "fix"),
    ),
    "queue restored": Kind(
        WARNING, "the server had lost the queue's shards and policy; a client wrote them again", ("shards",)
    ),
    "consumer trouble": Kind(
        ERROR, "something unforeseen beside the handler; the consumer goes on", ("what", "error_type", "error")
    ),
    "observer failed": Kind(ERROR, "an observer raised; told once for each", ("observer", "error_type", "error")),
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `fields` are plain values, so that an event can be sent as JSON."""

    name: str
    queue: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    """What the handler raised, if one did."""
    detail: str = ""
    """What the sentence says behind the name."""
    once: tuple[Any, ...] | None = None
    """What it is about, if it is told once for that."""

    @property
    def level(self) -> int:
        """Of the log line. A message is dropped as late because the queue's policy says so: that is no error. Neither
        is a new queue with a name like no other.
        """
        if self.name == "message dropped" and self.fields.get("late"):
            return WARNING
        if self.name == "queue new" and not self.fields.get("near"):
            return INFO
        return EVENTS[self.name].level

    @property
    def text(self) -> str:
        """One sentence for people, in one line."""
        said = ": ".join(part for part in (self.queue, self.name, self.detail) if part)
        return plain(said)


def event(
    name: str,
    queue: str,
    detail: str = "",
    fields: Mapping[str, Any] | None = None,
    *,
    error: BaseException | None = None,
    once: tuple[Any, ...] | None = None,
) -> Event:
    """An event of the list. Raises KeyError for a name or a field that is not in it."""
    kind, fields = EVENTS[name], fields or {}
    unknown = [one for one in fields if one not in kind.fields]
    if unknown:
        raise KeyError(f"event {name!r} has no field {unknown[0]!r}")
    return Event(name, queue, fields, error, detail, once)


# -- how things are shown ---------------------------------------------------------------------------------------
