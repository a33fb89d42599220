"""The events that a supervisor emits: of its service as a whole, and of its consumers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import SequencerError
from ..texts.commands import command
from ..texts.events import Event, event
from ..texts.words import duration, error_text, many, type_name
from ..values.checks import near_name


class Begun(NamedTuple):
    """The message that a consumer began last; both are "" between batches."""

    name: str = ""
    """Its group and id."""
    see: str = ""
    """The command that explains its group."""


NOTHING = Begun()


def service_started(queue: str, *, server: str, app: str, processes: int, lease_s: float, version: str) -> Event:
    """The service runs; `app` is what handles the messages, in words."""
    said = f"{many(processes, 'consumer')}, {app}, on {server}, lease {lease_s:g} s, sequencer {version}"
    fields = {"server": server, "app": app, "processes": processes, "lease_s": lease_s, "version": version}
    return event("service started", queue, said, fields)


def queue_unused(queue: str, *, known: Sequence[str] | None, namespace: str) -> Event:
    """Nobody has appended to the queue. `known`: the names of all queues, this one too if it was there."""
    near = near_name(queue, known or ())
    make = command("append", queue, "FILE.ndjson", namespace=namespace)
    is_new = known is not None and queue not in known
    said = "it did not exist, and is made now, with nothing in it" if is_new else "it has had no message yet"
    fix = command("delete", queue, namespace=namespace) if near and is_new else ""
    said += f"; did you mean {near!r}?" if near else ";"
    said += f" then end this, and: {fix}; else" if fix else ""
    fields = {"near": near, "make": make, "fix": fix}
    return event("queue unused", queue, f"{said} its first message comes by append() or: {make}", fields)


def consumer_died(queue: str, *, pid: int, ended_by: str, lived_s: float, begun: Begun = NOTHING) -> Event:
    """`ended_by`: "exit status 1", "signal SIGKILL"."""
    fields = {"consumer_pid": pid, "ended_by": ended_by, "lived_s": round(lived_s, 1), **_fields(begun)}
    return event("consumer died", queue, f"{pid} ({ended_by}) after {lived_s:.1f} s{_seen(begun)}", fields)


def _seen(begun: Begun) -> str:
    see = f"; see: {begun.see}" if begun.see else ""
    return f"; the message that it began last: {begun.name}{see}" if begun.name else ""


def _fields(begun: Begun) -> dict[str, Any]:
    return {"in_progress": begun.name, "see": begun.see}


def consumer_cant_work(queue: str, error: BaseException, *, has_trace: bool = False) -> Event:
    """What a consumer says before it ends; with its traceback where nobody foresaw it."""
    fields = {"error_type": type_name(error), "error": error_text(error)}
    said = f"{fields['error_type']}: {fields['error']}" if has_trace else fields["error"]
    return event("consumer can't work", queue, said, fields, error=error if has_trace else None)


def output_closed(queue: str) -> Event:
    """Nobody reads the printed lines any more."""
    return event("output closed", queue, "whoever read the printed lines is gone")


def consumer_starts_again(queue: str, *, retry_in_s: float) -> Event:
    """A place is empty for this time."""
    return event("consumer starts again", queue, f"in {duration(retry_in_s)}", {"retry_in_s": round(retry_in_s, 3)})


def service_gives_up(queue: str, *, deaths: int, why: str) -> Event:
    """No consumer gets to work. One that can't at all is enough, and others die of the same meanwhile: not counted."""
    said = f"in each place {_dead(deaths, why)}" if deaths > 1 else f"a consumer died {why}"
    return event("service gives up", queue, said, {"deaths": deaths, "why": why})


def _dead(deaths: int, why: str) -> str:
    return f"{many(deaths, 'consumer')}{' in a row' if deaths > 1 else ''} died {why}"


def consumer_cant_start(queue: str, error: BaseException) -> Event:
    """No process could be made."""
    text = f"{type_name(error)}: {error_text(error)}"
    return event("consumer can't start", queue, text, {"error": text})


STAGES = {
    1: "{n}: finish the message in progress{then}; again to release it and stop now",
    2: "{n}: release what is in progress and stop now; again to kill them",
    3: "{n}: killed; what was in progress waits until the leases end",
}


def service_stopping(queue: str, stage: int, consumers: int, grace_s: float | None = None) -> Event:
    """A stage of a stop was asked for; `grace_s` after the first comes the second."""
    then = "" if grace_s is None else f" within {grace_s:g} s"
    said = STAGES[stage].format(n=many(consumers, "consumer"), then=then) if consumers else "no consumer runs"
    return event("service stopping", queue, said, {"stage": stage, "consumers": consumers})


def consumer_killed(queue: str, *, pid: int, why: str, begun: Begun = NOTHING) -> Event:
    """The service itself killed a consumer."""
    fields = {"consumer_pid": pid, "why": why, **_fields(begun)}
    return event("consumer killed", queue, f"{pid}, because {why}{_seen(begun)}", fields)


def expired_leases(queue: str, *, owner: str, groups: int, tried: str = "", attempts: int = 0) -> Event:
    """Groups of a consumer that is gone were taken over when its leases had ended.

    `tried`: the one of their first messages that was begun most often, `attempts` times; it may be what ends consumers.
    """
    said = f"{many(groups, 'group')} of consumer {owner} waited for {'its lease' if groups == 1 else 'their leases'}"
    said += f"; begun before: {tried}, {many(attempts, 'attempt')} so far" if tried else ""
    return event("expired leases", queue, said, {"expired_owner": owner, "groups": groups, "tried": tried})


def output_blocked(queue: str) -> Event:
    """Nobody reads standard output just now."""
    return event("output blocked", queue, "nobody reads what is printed; consumers wait, and go on when it is read")


def service_ended(queue: str, said: str, *, seconds: float, **counts: int) -> Event:
    """`said` is the summary for people; `counts` as the event's fields."""
    return event("service ended", queue, said, {"seconds": round(seconds, 2), **counts})


def supervisor_trouble(queue: str, error: BaseException, *, what: str) -> Event:
    """Something failed while the supervisor did `what`; it goes on. With its traceback where nobody foresaw it."""
    fields = {"what": what, "error_type": type_name(error), "error": error_text(error)}
    said = f"{what}: {fields['error_type']}: {fields['error']}; the service goes on"
    return event("supervisor trouble", queue, said, fields, error=None if isinstance(error, SequencerError) else error)


def consumer_trouble(queue: str, error: BaseException, *, what: str) -> Event:
    """Something unforeseen happened in a consumer's process beside its handler; it goes on."""
    fields = {"what": what, "error_type": type_name(error), "error": error_text(error)}
    said = f"{what}: {fields['error_type']}: {fields['error']}; the consumer goes on"
    return event("consumer trouble", queue, said, fields, error=error)


# -- pools, of `run` ------------------------------------------------------------------------------------------------


def pool_down(queue: str, *, deaths: int, why: str, retry_in_s: float) -> Event:
    """No consumer of the queue gets to work."""
    said = f"in each place {_dead(deaths, why)}; one is tried each {retry_in_s:g} s"
    return event("pool down", queue, said, {"deaths": deaths, "why": why, "retry_in_s": retry_in_s})


def pool_back(queue: str, *, lasted_s: float) -> Event:
    """Consumers of the queue get to work again."""
    return event("pool back", queue, f"after {lasted_s:.0f} s", {"lasted_s": round(lasted_s, 1)})


def pool_scaled(queue: str, *, before: int, now: int, why: str) -> Event:
    """The queue gets more consumers, or fewer."""
    said = f"{before} to {many(now, 'consumer')}, because {why}"
    return event("pool scaled", queue, said, {"before": before, "now": now, "why": why})


def consumer_overdue(queue: str, *, pid: int, lived_s: float, begun: Begun, kill_in_s: float) -> Event:
    """A consumer is past `max_age` and `hang_after`."""
    then = f"interrupting its message, which counts as an attempt; killing it in {kill_in_s:g} s"
    said = f"{pid} is {lived_s:.0f} s old; {then}"
    fields = {"consumer_pid": pid, "lived_s": round(lived_s, 1), **_fields(begun)}
    return event("consumer overdue", queue, f"{said}{_seen(begun)}", fields)


def runs_already(file: str, other_pid: int) -> Event:
    """A second master of the same file starts a second set of consumers."""
    said = f"process {other_pid} runs {file} on this host; each queue now has two sets of consumers, and run --status"
    return event("runs already", "", f"{said} asks that process", {"file": file, "other_pid": other_pid})


def import_hangs(limit_s: float) -> str:
    """Why a process that imports an app is ended."""
    return f"its import did not finish within {limit_s:g} s (start_timeout)"


def service_reloading(file: str) -> Event:
    """A reload was asked for."""
    return event("service reloading", "", f"{file}; consumers are replaced one by one", {"file": file})


def service_reloaded(file: str) -> Event:
    """All consumers are of the new file."""
    return event("service reloaded", "", f"{file}; all consumers are new", {"file": file})


def reload_failed(queue: str, error: str) -> Event:
    """The file, or the code of a queue, is wrong."""
    return event("reload failed", queue, f"{error}; the consumers of before go on", {"error": error})


def check_says(queue: str, text: str) -> Event:
    """The queue's own check returned something."""
    said = error_text(text)
    return event("check says", queue, said, {"said": said})


# -- alerts ---------------------------------------------------------------------------------------------------------


def alert_sent(queue: str, kind: str, what: str, target: str) -> Event:
    """A target took a message of an incident."""
    said = f"{target} was told: {kind}, {what}"
    return event("alert sent", queue, said, {"target": target, "kind": kind, "what": what})


def alert_not_sent(target: str, error: str) -> Event:
    """A target does not take what it is told; it is retried after half a minute, and on."""
    said = f"{target}: {error}; it is retried, and the others are told"
    return event("alert not sent", "", said, {"target": target, "error": error})
