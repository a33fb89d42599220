"""Writes the references of options and events into their pages, each between two marks: python .ci/reference.py"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from sequencer.metrics import QueueCollector
from sequencer.metrics.supervisor import SupervisorCollector
from sequencer.processes.alerts.settings import QueueAlerts
from sequencer.processes.alerts.targets import TargetTable
from sequencer.settings.option import Option, declared
from sequencer.settings.options import (
    ConsumerOptions,
    OutboxOptions,
    PoolOptions,
    QueueOptions,
    RunOptions,
    ServiceOptions,
)
from sequencer.settings.policy import Policy
from sequencer.settings.thresholds import Thresholds
from sequencer.texts.events import EVENTS

BEGIN, END = "<!-- written by .ci/reference.py -->", "<!-- end of the reference -->"
SECTIONS: dict[str, tuple[type, ...]] = {
    "A queue": (QueueOptions,),
    "The policy of a queue": (Policy,),
    "A consumer": (ConsumerOptions,),
    "A service": (ServiceOptions,),
    "A queue in the file of `run`": (PoolOptions,),
    "The outbox of a queue: `[queues.NAME.outbox]`": (OutboxOptions,),
    "The file of `run`": (RunOptions,),
    "Alerts: `[alerts]`, `[queues.NAME.alerts]`": (Thresholds, QueueAlerts),
    "A target: `[targets.NAME]`": (TargetTable,),
}
KEYWORDS = {QueueOptions: "`Sequencer()`", Policy: "`Sequencer()`", ConsumerOptions: "`consume()`"}
WORDS = {"append": "`append`", "configure": "`configure`", "consume": "`consume`", "run": "file"}

FIELDS: Mapping[str, str] = {
    "address": "where it is served: host and port",
    "group": "parts of the group, as a list of strings; if a consumer ended, of the message it started last",
    "owner": "name of the consumer that emits it",
    "id": "of the message",
    "attempt": "number of attempts so far, of the message or the step",
    "attempts": "how many attempts it may have",
    "shard": "number of a shard",
    "known": "the last batch that the relay knows to be stored in the shard",
    "stored": "the last batch that the shard has",
    "error_type": "class of the error",
    "error": "text of the error, on one line",
    "retry_in_s": "seconds until the next attempt; none if another consumer decides that",
    "outage": "whether it is an outage, which does not count as an attempt",
    "since": "when the outage began, in seconds since 1970",
    "lasted_s": "how long it lasted, in seconds",
    "probes": "how many probes failed",
    "late": "whether the message was given up because it was late",
    "step": "name of the step",
    "is_check": "whether the step's check failed",
    "steps": "outcome of each failed step, by name; names of the steps that an operator has to answer for",
    "runs": "how often each of these steps was started",
    "ledger": "outcome of its steps, as JSON",
    "blocked_s": "how long it has been blocked, in seconds",
    "place": "file, line and function that blocks it",
    "is_over": "whether it goes on again",
    "took_s": "how long the handler or the step ran, in seconds; for a message with steps, all of them",
    "runs_s": "how long it has been running, in seconds",
    "is_stopping": "whether a shutdown waits for it",
    "is_killed": "whether the service kills its consumer",
    "number": "sequence number of the first message that is present",
    "first_missing": "first number missing before it",
    "last_missing": "last number missing before it",
    "until": "when the wait ends, in seconds since 1970",
    "expired_owner": "name of the consumer whose lease expired",
    "token": "of the lease",
    "code": "code of the error: the same while the server is away for one reason",
    "away_s": "how long the server was away, in seconds",
    "server": "the server, without its password",
    "app": "what handles the messages",
    "processes": "how many consumers the service keeps",
    "lease_s": "duration of a lease, in seconds",
    "version": "of sequencer",
    "near": "the queue that was probably meant; empty if no name is similar",
    "consumer_pid": "process id of the consumer",
    "other_pid": "process id of the other master",
    "status": "exit status of the consumer; -N if signal N ended it",
    "after_s": "after how long, in seconds",
    "threads": "threads that keep it from exiting",
    "due": "groups waiting for a consumer",
    "waits_s": "how long the first of them has waited, in seconds",
    "deaths": "how many in a row",
    "is_final": "whether another consumer would fail the same way",
    "lived_s": "how long the consumer lived, in seconds",
    "kill_in_s": "seconds until it is killed",
    "grace_s": "seconds until the next stage",
    "stage": "1: current messages are finished; 2: they are interrupted; 3: the consumers are killed",
    "consumers": "how many consumers run, or ran",
    "why": "the reason",
    "file": "path of the file that defines the queues",
    "text": "what the check returned",
    "action": "what was done: `resume`, `skip`, `purge` and so on",
    "who": "who did it: the user's name, where the application says so, else the role",
    "count": "how many groups or dead letters it is about",
    "target": "name of a target of alerts",
    "kind": "of the incident: parked, dead, wait, ...",
    "lines": "how many lines of the log",
    "observer": "name of the callback",
    "seconds": "how long the service ran",
    "handled": "messages handled",
    "failed": "attempts that failed",
    "outages": "how many of them were an outage",
    "lost": "leases lost",
    "parked": "groups parked, so far",
    "dead": "messages set aside as dead letters",
    "dropped": "messages dropped",
    "started": "consumers that were started",
    "died": "consumers that died",
    "killed": "consumers that the service killed",
    "unreported": "consumers that ended without a final report; their last second is not counted",
    "what": "what was being done; for an alert: open, news, again or resolved",
    "policy": "name of the policy",
    "before": "the old value",
    "now": "the new value",
    "shards": "how many shards the queue has",
    "unreachable": "numbers of the shards that can't be reached",
    "from_shard": "whether only the registry was lost",
    "suppressed": "how many events of this name the line summarizes",
    "errors": "how many of them by class of error, the ten most frequent",
}
"""What each field means."""
COMMANDS: Mapping[str, str] = {
    "inspect": "shows what is wrong",
    "retry": "retries the message",
    "retry_same_error": "resumes all groups of the queue that are parked by this error",
    "retry_all": "resumes all parked groups of the queue",
    "skip": "continues without the message, or without the missing number",
    "fix": "repairs it",
    "done": "confirms that the step took effect",
    "again": "runs the step again, if it did not take effect",
    "probe": "checks at once whether the outage is over",
    "kill": "kills the consumer; run it on the consumer's host",
    "append": "appends a first message",
    "delete": "deletes the queue",
}
"""What each command of an event does."""


def reference() -> str:
    """A table for each subject."""
    lines = list[str]()
    for title, kinds in SECTIONS.items():
        lines += [f"### {title}", "", "| option | default | takes | where | |", "| --- | --- | --- | --- | --- |"]
        for kind in kinds:
            above = declared(ConsumerOptions) if kind is ServiceOptions else {}
            lines += [row(one, KEYWORDS.get(kind, "")) for name, one in declared(kind).items() if name not in above]
        lines.append("")
    return "\n".join(lines)


def row(one: Option, keyword: str) -> str:
    default = f"`{one.default_text}`" if one.default_text else ""
    takes = f"{one.kind.word} {one.kind.bounds}".strip()
    where = ", ".join([*([keyword] if keyword else []), *(WORDS[taker] for taker in one.takers)])
    where += f", `{one.variable}`" if one.variable else ""
    return f"| `{one.name}` | {default} | {takes} | {where} | {one.help} |"


def events() -> str:
    """A table of what the log and observers are told."""
    lines = ["| event | level | when | fields |", "| --- | --- | --- | --- |"]
    for name, kind in sorted(EVENTS.items()):
        observed = " **" if kind.is_success else " *" if kind.is_observed else ""
        fields = ", ".join(f"`{field}`" for field in kind.fields.split())
        lines.append(f"| `{name}`{observed} | {logging.getLevelName(kind.level)} | {kind.meaning} | {fields} |")
    lines += ["", "| field | holds |", "| --- | --- |"]
    known = {field for kind in EVENTS.values() for field in kind.fields.split()} | {"suppressed", "errors"}
    lines += [f"| `{name}` | {FIELDS[name]} |" for name in sorted(known)]
    lines += ["", "| command | what it does |", "| --- | --- |"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in COMMANDS.items()]
    return "\n".join(lines) + "\n"


def metrics() -> str:
    """A table for each of the two sources."""
    lines = list[str]()
    for title, known in (("The queues", QueueCollector.METRICS), ("A service", SupervisorCollector.METRICS)):
        lines += [f"### {title}", "", "| metric | type | labels | |", "| --- | --- | --- | --- |"]
        for one in known:
            words = f" ({', '.join(one.words)})" if one.words else ""
            labels = ", ".join(f"`{label}`" for label in one.labels) + words
            lines.append(f"| `{one.name}` | {one.kind} | {labels} | {one.help} |")
        lines.append("")
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "docs/configuration.md": reference,
    "docs/events.md": events,
    "docs/metrics.md": metrics,
}


def written(text: str, reference: str) -> str:
    """A page with a reference between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page needs these two lines:\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{reference}\n{END}{after}"


if __name__ == "__main__":
    for name, made in PAGES.items():
        page = Path(__file__).parents[1] / name
        page.write_text(written(page.read_text(), made()))
