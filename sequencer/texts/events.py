"""Every event: its name, level, meaning and fields, and how it is worded. Pure.

An event is data: whoever emits it gives its fields. Its text and its commands are made from them when somebody reads
them. A record of the logger `sequencer` has the name as `event`, the queue as `queue`, and the fields and commands
(`extra=` of logging). No event holds a body or a header. An error's text is one line, and cut; its traceback is whole.
A few log lines are not events: answers to Ctrl-C, lines at INFO or DEBUG, and, at WARNING, something that a client
does without.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ..errors import BodyInvalid, CommandFailed, LeaseExpired, SequencerError, StepUnknown, StopConsuming
from .commands import answer_commands, end_command, with_commands
from .templates import NO_COMMANDS, Commands, Fields, Wording, fill, filled_commands
from .words import LEDGER_CHARACTERS, error_text, named, numbers, of_limit, plain, type_name

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
NO_BODY = "the message has no body in Redis"
"""Of a message whose record was deleted or evicted by something else: `doctor --repair` removes it from the order."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `fields` are plain values."""

    name: str
    queue: str
    fields: Fields = field(default_factory=dict)
    error: BaseException | None = None
    """The exception, if one was raised."""
    namespace: str = "sequencer"
    once: tuple[Any, ...] | None = None
    """What it is about, if it is emitted only once for that."""

    @property
    def level(self) -> int:
        """Of the log line; lower for a late message that the policy drops, and a new queue that resembles no other."""
        if self.name == "message dropped" and self.fields.get("late"):
            return WARNING
        if self.name == "queue created" and not self.fields.get("near"):
            return INFO
        return EVENTS[self.name].level

    @property
    def _known(self) -> Fields:
        """What a template may name: the fields, the queue, and what is made of them."""
        fields, begun = self.fields, _begun(self.fields)
        facts = {"facts": _facts(begun, fields), "begun": begun, "raised": _raised(fields)}
        missing = numbers(fields.get("first_missing"), fields.get("last_missing"))
        return {**fields, **facts, "missing": missing, "queue": self.queue, "namespace": self.namespace}

    @property
    def detail(self) -> str:
        """What happened, in words."""
        return fill(EVENTS[self.name].words, self._known)

    @property
    def text(self) -> str:
        """One sentence in one line: `orders: server back: after 2.5 s`."""
        return ": ".join(part for part in (plain(self.queue), self.name, self.detail) if part)

    @property
    def commands(self) -> dict[str, str]:
        """Command lines by what they do: `inspect`, `retry`, `skip` and others."""
        return filled_commands(EVENTS[self.name].commands, self._known)

    @property
    def line(self) -> str:
        """The text and the commands, as the log shows them."""
        return with_commands(self.text, self.commands)

    @property
    def record(self) -> dict[str, Any]:
        """The fields of a log record beside its message (`extra`)."""
        return {"event": self.name, "queue": self.queue, **self.fields, **self.commands}

    @property
    def cause(self) -> BaseException | None:
        """What the log shows the traceback of: not of warnings, nor of errors that no code of the user raised."""
        if (
            self.level < ERROR
            or isinstance(self.error, CommandFailed | LeaseExpired)
            or (isinstance(self.error, SequencerError | StopConsuming) and not EVENTS[self.name].is_observed)
        ):
            return None
        return self.error.__cause__ if isinstance(self.error, StepUnknown | BodyInvalid) else self.error


def event(
    name: str,
    queue: str,
    /,
    *,
    namespace: str = "sequencer",
    error: BaseException | str | None = None,
    once: tuple[Any, ...] | None = None,
    **fields: Any,
) -> Event:
    """An event of the list. `error` gives the fields `error_type` and `error`, a text only the latter; a `ledger` is
    cut. Raises KeyError for a name or a field that is not in the list.
    """
    known, raised = EVENTS[name].fields.split(), error if isinstance(error, BaseException) else None
    if raised is not None and "error_type" in known:
        fields.setdefault("error_type", type_name(raised))
    if error is not None:
        fields["error"] = error_text(error)
    if isinstance(ledger := fields.get("ledger"), bytes):
        fields["ledger"] = error_text(ledger.decode(), LEDGER_CHARACTERS)
    if unknown := fields.keys() - known:
        raise KeyError(f"event {name!r} has no field {min(unknown)!r}")
    return Event(name, queue, fields, raised, namespace, once)


def log_event(one: Event) -> None:
    """Write an event that nobody observes or counts into the log."""
    if (log := logging.getLogger("sequencer")).isEnabledFor(one.level):
        log.log(one.level, one.line, extra=one.record)


def more_of(name: str, queue: str, errors: Mapping[str, int], count: int, elapsed_s: float) -> str:
    """A line that summarizes further events of the same name."""
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in errors.items())
    return plain(f"{queue}: {count:,} more of '{name}' in {elapsed_s:.1f} s{': ' if kinds else ''}{kinds}")


# -- wording ----------------------------------------------------------------------------------------------------------


def _begun(fields: Fields) -> str:
    found = [f"group={named(fields['group'])}"] if fields.get("group") else []
    return " ".join([*found, f"id={fields['id']}"] if fields.get("id") else found)


def _facts(begun: str, fields: Fields) -> str:
    found = [begun] if begun else []
    if "step" in fields:
        found.append(f"step={fields['step']}{' (its check)' if fields.get('is_check') else ''}")
    if "attempts" in fields:
        found.append(f"attempt={of_limit(fields['attempt'], fields['attempts'])}")
    return " ".join([*found, *([f"error={_raised(fields)}"] if "error" in fields else [])])


def _raised(fields: Fields) -> str:
    error = str(fields.get("error", ""))
    return f"{fields['error_type']}: {error}" if "error_type" in fields else error


def _message_failed(fields: Fields) -> str:
    if "since" in fields:
        return "{facts}; outage since {since:moment}, no attempt counted; next probe in {retry_in_s:duration}"
    then = "; retrying in {retry_in_s:duration}" if "retry_in_s" in fields else "; lease lost, its new owner retries it"
    return "{facts}" + ("; outage, no attempt counted" if fields.get("outage") else "") + then


def _service_stopping(fields: Fields) -> str:
    stages = {
        1: "finishing current messages{grace_s:? within {grace_s:duration}}; signal again to abort them",
        2: "releasing current messages and stopping; signal again to kill the consumers",
        3: "killed; current messages wait for their leases to expire",
    }
    return "{consumers:consumer}: " + stages[fields["stage"]] if fields["consumers"] else "no consumers running"


_ENDED = {
    "failed": "{failed:failed attempt}{outages:? ({outages:,} in an outage)}",
    "parked": "groups parked {parked:time}",  # not how many groups: one that was resumed may be parked again
    "dead": "{dead:dead letter}",
    "dropped": "{dropped:dropped message}",
    "lost": "{lost:lost lease}",
    "died": "{died:dead consumer}",
    "killed": "{killed:killed consumer}",
}


def _service_ended(fields: Fields) -> str:
    known = _ENDED | ({"parked": "1 parked group"} if fields["parked"] == 1 else {})
    counts = ", ".join(text for name, text in known.items() if fields[name]) or "no failures"
    text = "consumed {unreported:?at least }{handled:message} in {seconds:.2f} s with {consumers:consumer}: " + counts
    return text + "{unreported:? (the last second of {unreported:consumer} is not counted)}"


_DEATHS = (
    "{is_final:?a consumer died for the reason logged above, and another one would fail the same way}"
    "{is_final:!every worker lost {deaths:consumer} in a row before a message was started}"
)
_KILLED = {
    "not exited": "it finished {after_s:g} s ago but does not exit (threads: {threads:?{threads:list}}{threads:!none})",
    "not stopped": "it was stopped while starting, {after_s:g} s ago",
    "not loaded": "its import did not finish within {after_s:g} s (start_timeout)",
    "not connected": "it is not connected after {after_s:g} s (start_timeout)",
    "silent": "it sent no heartbeat for {after_s:g} s (for example, C code that holds the GIL)",
    "overdue": "it is past max_age, was stopped {after_s:g} s ago, and is still running",
    "stuck": "its handler ignored the end of its time limit",
}
_SCALED = {
    "waiting": "{due:group} waiting, the first for {waits_s:.1f} s",
    "too many": "there are more than the file allows",
    "idle": "they have little to do",
}


# -- commands ---------------------------------------------------------------------------------------------------------


def _inspect(fields: Fields) -> dict[str, str]:
    return {"inspect": "sequencer explain QUEUE GROUP"} if fields.get("group") else {}


_DOCTOR = "sequencer doctor QUEUE"
_FIX = f"{_DOCTOR} --repair"
_SKIP = {"skip": "sequencer skip QUEUE GROUP"}


def _of_parked(fields: Fields) -> dict[str, str]:
    found = _inspect(fields)
    if "number" in fields:
        return found | _SKIP
    if "runs" in fields:
        return found | answer_commands(is_dead=False)
    if "steps" in fields:
        return found | {"fix": "sequencer resume QUEUE GROUP --id ID --done STEPS --result null"}
    if fields["error_type"] == "Undecodable":  # to resume it would park it again
        return found | ({"fix": _FIX} if fields["error"] == NO_BODY else {}) | _SKIP
    found |= {"retry": "sequencer resume QUEUE GROUP"} | _SKIP
    if fields["parked"] > 1:
        found["retry_same_error"] = "sequencer resume QUEUE --error ERROR_TYPE"
        found["retry_all"] = "sequencer resume QUEUE --all"
    return found


def _of_dead(fields: Fields) -> dict[str, str]:
    found = {"inspect": "sequencer dead show QUEUE GROUP --id ID"}
    if "runs" in fields:
        return found | answer_commands(is_dead=True)
    return found | {"retry": "sequencer dead redrive QUEUE GROUP --id ID"}


def _of_handler(fields: Fields) -> dict[str, str]:
    return _inspect(fields) | ({} if fields.get("is_killed") else {"kill": end_command(fields["owner"])})


# -- the list ---------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What all events of a name have in common."""

    level: int
    meaning: str
    fields: str
    """Their names, with the unit at the end: `_s` is seconds."""
    words: Wording = "{facts}"
    """It also knows `facts` (group, id, step, attempt, error), `begun`, `raised`."""
    commands: Commands = NO_COMMANDS
    is_observed: bool = False
    """Whether observers (`Sequencer.observe`) are called."""
    is_success: bool = False
    """Whether only those that asked for successes are; it is made where there are any."""


_debug, _info, _warning, _error = (partial(Kind, level) for level in (DEBUG, INFO, WARNING, ERROR))
_RAISED = "error_type error"
_MESSAGE = f"group owner id step attempt attempts {_RAISED}"
_GAP = "number first_missing last_missing"
EVENTS: Mapping[str, Kind] = {
    "message failed": _warning(
        "an attempt failed; the message will be retried",
        f"{_MESSAGE} retry_in_s outage since",
        _message_failed,
        is_observed=True,
    ),
    "group parked": _error(
        "the group waits until an operator resumes it: its head failed its last attempt, or a missing number did "
        "not arrive in time",
        f"{_MESSAGE} parked steps runs {_GAP}",
        "{facts}{number:?: missing before {number}: {missing}; it did not arrive in time}",
        _of_parked,
        is_observed=True,
    ),
    "dead letter": _error(
        "a message was set aside; its group goes on", f"{_MESSAGE} steps runs late", commands=_of_dead, is_observed=True
    ),
    "message dropped": _error(
        "a message was discarded for good; its group goes on",
        f"{_MESSAGE} late ledger",
        "{facts}; it is gone{ledger:?; its ledger: {ledger}}",
        is_observed=True,
    ),
    "outage began": _error(
        "a shared dependency is down: the queue, or a shard of it, is held back until a probe succeeds",
        f"owner {_RAISED} since retry_in_s",
        "{facts}; handling suspended since {since:moment}, no attempts counted; next probe in {retry_in_s:duration}",
        {"inspect": "sequencer info QUEUE", "probe": "sequencer resume QUEUE --outage"},
        is_observed=True,
    ),
    "outage ended": _warning(
        "a probe succeeded; the queue goes on",
        "owner lasted_s probes",
        "after {lasted_s:duration} and {probes:failed probe}",
        is_observed=True,
    ),
    "outbox rows held": _error(
        "the queue refused rows of an outbox; later rows of their groups wait",
        f"count group id {_RAISED}",
        "{count:row}; last: {facts}",
        commands={
            "list": "sequencer outbox held QUEUE",
            "retry": "sequencer outbox release QUEUE",
            "drop": "sequencer outbox skip QUEUE GROUP --id ID",
        },
    ),
    "outbox sent again": _warning(
        "a shard lost messages of an outbox; the rows that are kept are sent again",
        "shard known stored",
        "shard {shard} has batch {stored} of {known}; sending what is kept again",
    ),
    "relay failed": _warning(
        "the relay of an outbox can't reach its database or the server; it tries again", _RAISED, "{raised}; retrying"
    ),
    "relay restored": _warning("the relay of an outbox goes on", "", "sending again"),
    "step failed": _debug(
        "a step of a message, or its check, raised; the outcome of the message is a separate event",
        f"{_MESSAGE} is_check",
        is_observed=True,
    ),
    "message handled": _debug(
        "a message was handled; only for observers with `successes=True`",
        "group owner id attempt took_s",
        "{facts} in {took_s:duration}",
        is_observed=True,
        is_success=True,
    ),
    "step done": _debug(
        "a step of a message returned; only for observers with `successes=True`",
        "group owner id step attempt took_s",
        "{facts} in {took_s:duration}",
        is_observed=True,
        is_success=True,
    ),
    "finished with failures": _warning(
        "a message is done, except for optional steps that failed",
        "group owner id steps",
        "{facts}: {steps:list}",
        is_observed=True,
    ),
    "step missing": _warning(
        "a message has a kind, or an open step, that this version of the program lacks; it waits for another version",
        f"group owner id {_RAISED} retry_in_s",
        "{facts}; waiting for another version, giving up in {retry_in_s:duration} (missing_wait)",
    ),
    "message removed": _error(
        "a message was removed or replaced while its steps ran; their outcome is in `ledger`",
        "group owner id ledger",
        "{facts}: removed or replaced while its steps ran; nothing is acknowledged; its ledger: {ledger}",
    ),
    "message released": _warning(
        "a handler or a step was interrupted; its message will be handled again, and no attempt is counted",
        "group owner id step",
        "{facts}: interrupted; it will be handled again, no attempt counted",
    ),
    "handler slow": _warning(
        "a handler has been running for a minute, or a shutdown waits for it; repeated each time that doubles",
        "group owner id runs_s is_stopping",
        "{facts} running for {runs_s:duration} in {owner}{is_stopping:?; the shutdown waits for it}",
        _of_handler,
    ),
    "handler stuck": _error(
        "a handler exceeded its time limit, was interrupted and is still running; its lease is no longer renewed",
        "group owner id runs_s is_killed",
        "{facts} timed out and was interrupted, but is still running after {runs_s:duration} in {owner}; its lease is "
        "no longer renewed, and its end counts as an attempt{is_killed:?; killing its consumer}",
        _of_handler,
    ),
    "loop blocked": _warning(
        "code that does not await blocks the event loop of a consumer and all its handlers; leases are renewed",
        "owner blocked_s place is_over",
        "{is_over:!for {blocked_s:duration} by {place}; other handlers of {owner} wait}"
        "{is_over:?for {blocked_s:duration} in all, by {place}; it goes on}",
    ),
    "gap wait": _warning(
        "a group of a sequence waits for a missing number",
        f"group owner id {_GAP} until",
        "{facts}: missing before {number}: {missing}; waiting until {until:moment}",
        {"inspect": "sequencer explain QUEUE GROUP", **_SKIP},
    ),
    "group broken": _error(
        "a group was parked because something else changed its keys",
        "group owner error",
        commands={"inspect": _DOCTOR, "fix": _FIX},
        is_observed=True,
    ),
    "lease expired": _warning(
        "a consumer died or stalled; another one took over its group",
        "group owner expired_owner id attempt",
        "{facts} owner={expired_owner}; {attempt:attempt} so far",
    ),
    "lease lost": _warning(
        "this consumer stalled for longer than its lease",
        "group owner token",
        "{facts} token={token}; messages it finished since are not acknowledged",
    ),
    "ack repeated": _info(
        "a repeated acknowledgement was refused; the first one may have arrived",
        "group owner",
        "{facts}: a repeated acknowledgement was refused; the first one may have arrived",
    ),
    "server lost": _warning(
        "the server can't be reached", "owner code error", "{error}; reconnecting until it is back"
    ),
    "server back": _warning("the server is reachable again", "owner away_s", "after {away_s:duration}"),
    "renewal failed": _error("renewing leases while a handler ran failed", f"owner {_RAISED}", "{raised}; retrying"),
    "groups not released": _warning(
        "a consumer ended without releasing its groups", "owner error", "{error}; they wait until their leases expire"
    ),
    "failure not recorded": _warning(
        "the failure of a message could not be recorded in the server",
        "group owner error",
        "{facts}; the message is retried when its lease expires",
    ),
    "observer failed": _error(
        "an observer raised an exception; logged once per observer",
        f"observer {_RAISED}",
        "{observer} raised {raised}; it stays registered, this is logged once",
    ),
    "service started": _info(
        "the service runs",
        "server app processes lease_s version",
        "{processes:consumer}, {app}, on {server}, lease {lease_s:duration}, sequencer {version}",
    ),
    "http started": _info("`--http` serves its pages", "address", "at http://{address}: /metrics, /live, /ready"),
    "queue unused": _warning(
        "nothing was ever appended to the queue; its name may be wrong",
        "",
        "never had a message",
        {"append": "sequencer append QUEUE FILE.ndjson"},
    ),
    "consumer died": _warning(
        "a consumer ended unexpectedly",
        "consumer_pid status lived_s group id",
        "pid {consumer_pid} ({status:ending}) after {lived_s:duration}{begun:?; last message started: {begun}}",
        _inspect,
    ),
    "consumer restarting": _info("a worker has no consumer until then", "retry_in_s", "in {retry_in_s:duration}"),
    "service gave up": _error(
        "the service ends: its consumers die before they start a message", "deaths is_final", _DEATHS
    ),
    "consumer not started": _error("no process could be started", _RAISED, "{raised}"),
    "service stopping": _info("the service is stopping", "stage consumers grace_s", _service_stopping),
    "consumer killed": _warning(
        "the service killed a consumer",
        "consumer_pid why after_s threads group id",
        lambda fields: (
            f"pid {{consumer_pid}}, because {_KILLED[fields['why']]}{{begun:?; last message started: {{begun}}}}"
        ),
        _inspect,
    ),
    "lines lost": _warning(
        "lines of the log could not be written",
        "lines error",
        "{lines:line} of the log: {error}{error:!nobody reads standard error}",
    ),
    "service ended": _info(
        "the service ended; the totals that its consumers reported",
        "seconds consumers handled failed outages lost parked dead dropped started died killed unreported",
        _service_ended,
    ),
    "consumer failed": _error("a consumer ends because of an error", _RAISED, "{raised}"),
    "pool down": _error(
        "consumers of the queue die before they start a message; retrying; other queues go on",
        "deaths is_final retry_in_s",
        _DEATHS + "; starting one every {retry_in_s:duration}",
    ),
    "pool back": _warning("consumers of the queue work again", "lasted_s", "after {lasted_s:duration}"),
    "pool scaled": _info(
        "the queue gets more consumers, or fewer",
        "before now why due waits_s",
        lambda fields: "{before} to {now:consumer}: " + _SCALED[fields["why"]],
    ),
    "already running": _warning(
        "another master runs the same file on this host",
        "file other_pid",
        "process {other_pid} already runs {file} on this host: each queue now has two sets of consumers, and run "
        "--status shows that process",
    ),
    "consumer overdue": _warning(
        "a consumer is past max_age and did not end: its message is interrupted, which counts as an attempt",
        "consumer_pid lived_s kill_in_s group id",
        "pid {consumer_pid} is {lived_s:duration} old; interrupting its message, which counts as an attempt; killing "
        "it in {kill_in_s:duration}{begun:?; last message started: {begun}}",
        _inspect,
    ),
    "service reloading": _info(
        "the file was read again, and consumers are replaced one by one",
        "file",
        "{file}; consumers are replaced one by one",
    ),
    "service reloaded": _info(
        "all consumers run the new file and the new code", "file", "{file}; all consumers replaced"
    ),
    "reload failed": _error(
        "the file or the code is wrong; the old consumers stay", "error", "{error}; keeping the old consumers"
    ),
    "check failed": _warning("the queue's check reported a problem", "text", "{text}"),
    "alert sent": _info(
        "an alert target accepted a message",
        "target kind what",
        "to {target}: {kind} ({what})",
    ),
    "alert not sent": _error(
        "an alert target did not accept a message; logged once until it accepts one",
        "target error",
        "to {target}: {error}; retrying",
    ),
    "output closed": _info(
        "the reader of the printed lines is gone; the service ends", "", "the reader of the printed lines is gone"
    ),
    "supervisor error": _error(
        "an unexpected error; the service goes on", f"what {_RAISED}", "{what}: {raised}; the service goes on"
    ),
    "policy changed": _warning(
        "a client changed the policy of the queue", "policy before now", "{policy} from {before!r} to {now!r}"
    ),
    "operator": _warning(
        "an operator changed something in the dashboard, or tried to and does not know whether it happened (`error`)",
        "group id action who count error",
        "{who}: {action}{begun:? {begun}}{count:? ({count:,})}{error:?: {error}}",
        _inspect,
    ),
    "queue created": _warning(
        "a client used a queue that did not exist; at INFO unless another queue has a similar name",
        "near",
        "{near:?did you mean {near!r}?}",
        lambda fields: {"delete": "sequencer delete QUEUE"} if fields["near"] else {},
    ),
    "queue restored": _warning(
        "the server had lost the queue's shards and policy; a client restored them",
        "shards from_shard",
        "{from_shard:?its registration was lost}{from_shard:!the server no longer knew it}; registered again, "
        "with {shards:shard}",
    ),
    "shards unreachable": _warning(
        "shards of the queue can't be reached; what is shown of it leaves them out",
        "unreachable error",
        "shards {unreachable:list}: {error}",
        {"inspect": _DOCTOR},
    ),
    "queue not listed": _warning(
        "the list of queues could not be changed; the queue itself works", "error", "{error}", {"inspect": _DOCTOR}
    ),
    "consumer error": _error(
        "an unexpected error outside the handler; the consumer goes on",
        f"what {_RAISED}",
        "{what}: {raised}; the consumer goes on",
    ),
}
