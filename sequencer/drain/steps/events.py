"""The events of steps: of one that failed, and of messages that are finished with failures, wait, or are gone. Pure."""

from __future__ import annotations

from typing import Any

from ...errors import StepUnknown
from ...settings.options import QueueOptions
from ...store.ledger import Ledger, encode_ledger
from ...texts.commands import command, id_option
from ...texts.events import Event, event
from ...texts.words import duration, error_text, named, of_limit, plain, type_name
from ...values.message import Message
from ..outcome import Failed
from .actions import CallStep, Finished
from .rules import fitting

LEDGER_CHARACTERS = 2000
"""Of a ledger in an event: with the rest of it, it fits into one write to a pipe."""


def _of(message: Message) -> str:
    return f"group={named(message.group)} id={message.id}"


def _fields(message: Message, owner: str) -> dict[str, Any]:
    return {"group": list(message.group), "owner": owner, "id": message.id}


def step_failed(queue: QueueOptions, owner: str, message: Message, asked: CallStep, error: BaseException) -> Event:
    """A step, or its check, raised."""
    step, name = asked.step, f"check of {asked.step.name}" if asked.is_check else asked.step.name
    tried, limit = asked.call.attempt, step.limit(queue.max_attempts)
    fields = _fields(message, owner) | {"step": step.name, "attempt": tried, "attempts": limit}
    fields |= {"error_type": type_name(error), "error": error_text(error)}
    said = (
        f"{_of(message)} step={name} attempt={of_limit(tried, limit)} error={fields['error_type']}: {fields['error']}"
    )
    if step.optional:
        said += "; it is optional, and holds nothing back"
    return event("step failed", queue.queue, said, fields, error=error)


def question(queue: QueueOptions, one: Failed, error: StepUnknown, fields: dict[str, Any]) -> Event:
    """A person is to say how a `once` step ended."""
    message, is_parked = one.message, one.decision.ending == "park"
    if is_parked:
        fields["see"] = command("explain", queue.queue, *message.group, namespace=queue.namespace)
    else:
        options = id_option(message.id)
        fields["see"] = command("dead show", queue.queue, *message.group, namespace=queue.namespace, options=options)
    fields |= {"error": error_text(error.question), "fix": error.done, "again": error.again}
    said = f"{_of(message)} error=StepUnknown: {fields['error']}; see: {fields['see']}; look whether it took effect; "
    said += f"if it did: {error.done}; if it did not: {error.again}"
    return event("group parked" if is_parked else "dead letter", queue.queue, said, fields, error=error)


def with_failures(queue: QueueOptions, owner: str, message: Message, end: Finished) -> Event:
    """Its required steps are done, and optional ones are not, or have lost their result."""
    entries = [entry for name in end.failed if (entry := end.ledger.get(name))]
    undone = [entry.name for entry in entries if entry.state != "done"]
    said = [f"not done: {', '.join(undone)}"] if undone else []
    said += [f"{e.name} is done, but its result can't be kept: {e.error}" for e in entries if e.state == "done"]
    fields = _fields(message, owner) | {"steps": list(end.failed)}
    return event("finished with failures", queue.queue, f"{_of(message)}: {'; '.join(said)}", fields)


def step_missing(queue: QueueOptions, owner: str, message: Message, error: BaseException, waited_s: float) -> Event:
    """It waits for another version of the program. Told once."""
    left_s = max(queue.missing_wait_s - waited_s, 0.0)
    said = f"{_of(message)} error={type_name(error)}: {error_text(error)}; its group waits for another version, and "
    said += f"this is given up in {duration(left_s)} (missing_wait)"
    fields = _fields(message, owner) | {"error": error_text(error), "retry_in_s": round(left_s, 3)}
    once = ("step missing", message.group, message.id, message.stamp)
    return event("step missing", queue.queue, said, fields, once=once)


def message_gone(queue: QueueOptions, owner: str, message: Message, ledger: Ledger) -> Event:
    """It was removed or replaced while its steps ran: what they did is nowhere else."""
    kept = ledger_text(encode_ledger(fitting(ledger)))
    said = f"{_of(message)}: it was removed or replaced while its steps ran, so nothing is acknowledged; its ledger: "
    fields = _fields(message, owner) | {"ledger": kept}
    return event("message gone", queue.queue, f"{said}{kept}", fields)


def ledger_text(ledger: bytes) -> str:
    """A ledger as a line of the log takes it: its beginning, of one with large results."""
    text = plain(ledger.decode())
    return text if len(text) <= LEDGER_CHARACTERS else f"{text[:LEDGER_CHARACTERS]}..."
