"""The events that a consumer tells: of a message that failed, of what its claim found, of its server. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..calls.claim import NO_BODY, Halted, LeasedGroup
from ..calls.outage import Began, Ended
from ..errors import Park, SequencerError, StepResultInvalid, StepUnknown, Undecodable
from ..settings.options import QueueOptions
from ..store.failure import decode_failure
from ..store.group import decode_group
from ..texts.commands import command, end_command, id_option, removal, resume_all, to_one_unit
from ..texts.events import Event, event
from ..texts.explanations import mixed
from ..texts.words import duration, error_text, many, moment, named, of_limit, type_name
from ..values.message import Message
from ..values.score_units import Examples
from .outcome import Failed
from .steps.events import ledger_text, question

MANY_PARKED = 2
"""With these one more parked group is the third, as many as begin an outage."""
NO_OUTAGE = (Park, TypeError, ValueError, LookupError, AttributeError, NameError, ArithmeticError, AssertionError)
"""Errors that ask for it, or that are mistakes of a program or of its data: to wait for their end is no help."""


def failed(options: QueueOptions, owner: str, one: Failed, *, parked: int = 0) -> Event:
    """What a message failed with, and what becomes of it. `parked`: how many groups this consumer parked before."""
    message, failure, decision, queue = one.message, one.failure, one.decision, options.queue
    fields: dict[str, Any] = {
        "group": list(message.group),
        "owner": owner,
        "id": message.id,
        "attempt": failure.attempt,
        "attempts": options.max_attempts,
        "error_type": type_name(one.error),
        "error": error_text(failure.message),
    }
    is_told = failure.attempt and not (one.is_late or decision.outage or one.steps)
    tried = f" attempt={of_limit(failure.attempt, options.max_attempts)}" if is_told else ""
    said = f"{name_of(message.group, message.id)}{tried} error={fields['error_type']}: {fields['error']}"
    if not one.is_held:
        then = "its lease was lost: who has the group now attempts it"
        return event("message failed", queue, f"{said}; {then}", fields, error=one.error)
    if decision.outage is not None:
        return _by_outage(queue, said, fields, one)
    if decision.delay_s is not None:
        fields["retry_in_s"] = round(decision.delay_s, 3)
        return event(
            "message failed", queue, f"{said}; retried in {duration(decision.delay_s)}", fields, error=one.error
        )
    if isinstance(one.error, StepUnknown):
        return question(options, one, one.error, fields)
    if decision.ending == "park":
        answer = one.error.done if isinstance(one.error, StepResultInvalid) else ""
        fix, skip = answer or _command(options, "resume", *message.group), _command(options, "skip", *message.group)
        is_lost = isinstance(one.error, Undecodable)  # to resume it would park it again
        if is_lost:
            fix = _command(options, "doctor", more=["--repair"]) if str(one.error) == NO_BODY else skip
        fields |= {"see": _explain(options, message.group), "fix": fix, "skip": skip}
        said = _fixed(said, fields)
        said += "" if fix == skip else f"; or without this message: {skip}"
        if parked and not is_lost:
            fields["fix_all"] = resume_all(options.queue, options.namespace)
            fields["fix_same_error"] = _command(options, "resume", more=["--error", fields["error_type"]])
            said += f"; or all that are parked by {fields['error_type']}: {fields['fix_same_error']}"
            is_out_of_attempts = options.max_attempts and failure.attempt >= options.max_attempts
            if parked >= MANY_PARKED and is_out_of_attempts and not isinstance(one.error, NO_OUTAGE):
                names = ",".join([*options.outage_names, fields["error_type"]])
                said += f"; if what all handlers need was away, consume with --outage {names}: the queue waits then"
        return event("group parked", queue, said, fields, error=one.error)
    fields["late"] = one.is_late
    error = None if one.is_late else one.error
    if decision.ending == "drop":
        if one.steps and one.steps.written:
            fields["ledger"] = ledger_text(one.steps.written.ledger)
            said += f"; its ledger: {fields['ledger']}"
        return event("message dropped", queue, f"{said}; it is gone", fields, error=error)
    fields["see"] = _command(options, "dead show", *message.group, more=id_option(message.id))
    fields["fix"] = _command(options, "dead redrive", *message.group, more=id_option(message.id))
    return event("dead letter", queue, _fixed(said, fields), fields, error=error)


def _by_outage(queue: str, said: str, fields: dict[str, Any], one: Failed) -> Event:
    """One more of an outage. While that holds the shard back, the shard waits rather than the group."""
    fields["outage"], wait_s, held = True, one.decision.delay_s, one.held_back
    if held is not None:
        then = f"; the queue waits since {moment(held.since_us / 1e6)}, next probe in {duration(held.probe_s)}"
        wait_s = held.probe_s
    else:
        then = "" if wait_s is None else f"; retried in {duration(wait_s)}"
    if wait_s is not None:
        fields["retry_in_s"] = round(wait_s, 3)
    return event("message failed", queue, f"{said}; an outage, so no attempt is counted{then}", fields, error=one.error)


def outage_began(options: QueueOptions, owner: str, one: Began) -> Event:
    """Enough groups failed by it: their shard is held back."""
    failure, outage = decode_failure(one.failure)[0], one.outage
    fields: dict[str, Any] = {"owner": owner, "error_type": failure.type, "error": error_text(failure.message)}
    fields |= {"since": outage.since_us / 1e6, "retry_in_s": round(outage.probe_s, 3)}
    fields |= {"see": _command(options, "info"), "fix": _command(options, "resume", more=["--outage"])}
    said = f"since {moment(outage.since_us / 1e6)} error={fields['error_type']}: {fields['error']}; nothing is "
    said += "handled, and no attempt counted, until it works again; "
    said += f"next probe in {duration(outage.probe_s)}; see: {fields['see']}"
    return event("outage began", options.queue, f"{said}; to probe at once: {fields['fix']}", fields)


def outage_over(queue: str, owner: str, one: Ended) -> Event:
    """A probe was handled, or failed with something else."""
    fields = {"owner": owner, "lasted_s": round(one.lasted_s, 3), "probes": one.probes}
    said = f"after {duration(one.lasted_s)} and {many(one.probes, 'failed probe')}; the queue goes on"
    return event("outage over", queue, said, fields)


def message_name(message: Message) -> str:
    """A message in a sentence: its group and id."""
    return name_of(message.group, message.id)


def interrupted(queue: str, owner: str, message: Message, step: str = "") -> Event:
    """Its handler or step did not come to its end; that counts for nothing."""
    fields = {"group": list(message.group), "owner": owner, "id": message.id}
    again = "its steps that are not done" if step else "from its beginning"
    what = f"its step {step}" if step else "its handler"
    said = f"{what} was interrupted; it is handled again, {again}, and no attempt is counted"
    return event("message released", queue, f"{message_name(message)}: {said}", fields)


def runs_long(options: QueueOptions, owner: str, message: Message, seconds: float, *, is_stopping: bool) -> Event:
    """Its handler runs, and nothing else of this consumer."""
    fields: dict[str, Any] = {"group": list(message.group), "owner": owner, "id": message.id}
    fields |= {"runs_s": round(seconds, 1), "see": _explain(options, message.group), "fix": end_command(owner)}
    said = f"{message_name(message)} for {seconds:.0f} s{'; the stop waits for it' if is_stopping else ''}; "
    said += f"see: {fields['see']}; if it hangs, end its process: {fields['fix']} (--handler-timeout sets a limit): "
    said += _removal(options, owner, message)
    return event("handler runs", options.queue, said, fields)


def stuck(options: QueueOptions, owner: str, message: Message, seconds: float, *, is_ended: bool) -> Event:
    """Its handler was interrupted and goes on; `is_ended`: the process that it runs in is killed anyhow."""
    fields: dict[str, Any] = {"group": list(message.group), "owner": owner, "id": message.id}
    fields |= {"runs_s": round(seconds, 1), "see": _explain(options, message.group), "fix": end_command(owner)}
    said = f"{message_name(message)}: it ran out of its time, was interrupted, and still runs after {seconds:.1f} s; "
    said += "its lease is not renewed any more, and the end of it counts as an attempt"
    if is_ended:
        return event("handler stuck", options.queue, f"{said}; its consumer is killed; see: {fields['see']}", fields)
    said += f"; see: {fields['see']}; to end its process: {fields['fix']}: {_removal(options, owner, message)}"
    return event("handler stuck", options.queue, said, fields)


def expired(queue: str, owner: str, groups: Sequence[LeasedGroup]) -> list[Event]:
    """Leases that ran out: a claim found their groups."""
    return [_expired(queue, owner, group) for group in groups if group.expired_owner]


def _expired(queue: str, owner: str, group: LeasedGroup) -> Event:
    head = group.messages[0]
    fields = {
        "group": list(group.group),
        "owner": owner,
        "expired_owner": group.expired_owner,
        "id": head.id,
        "attempt": head.attempt - 1,
    }
    said = f"{name_of(group.group, head.id)} owner={group.expired_owner}; {many(head.attempt - 1, 'attempt')} so far"
    return event("lease expired", queue, said, fields)


def mixed_scores(options: QueueOptions, owner: str, examples: Examples) -> Event:
    """Scores in several units were met: the order that they give is hardly the one that was meant."""
    see = _command(options, "doctor")
    fields = {"owner": owner, "see": see, "fix": to_one_unit(options.queue, options.namespace)}
    return event("mixed scores", options.queue, f"{mixed(examples)}; see: {see}; {fields['fix']}", fields)


def halted(options: QueueOptions, owner: str, one: Halted) -> Event:
    """A group that a claim deferred or parked itself."""
    fields: dict[str, Any] = {"group": list(one.group), "owner": owner}
    if not one.error:
        return _at_gap(options, fields, one)
    fields |= {
        "error": error_text(one.error),
        "see": _command(options, "doctor"),
        "fix": _command(options, "doctor", more=["--repair"]),
    }
    said = _fixed(f"group={named(one.group)} error={fields['error']}", fields)
    return event("group broken", options.queue, said, fields)


def _at_gap(options: QueueOptions, fields: dict[str, Any], one: Halted) -> Event:
    first, last = one.missing or (None, None)
    which = f"number {first} is" if first == last else f"numbers {first} to {last} are"
    said = f"{name_of(one.group, one.id)}: {which if first else 'a number is'} missing before {one.number}"
    fields |= {
        "id": one.id,
        "number": one.number,
        "first_missing": first,
        "last_missing": last,
        "see": _explain(options, one.group),
        "fix": _command(options, "skip", *one.group),
    }
    once = (one.group, one.id, one.number, one.missing, one.until_us)
    if one.until_us is None:
        said += ", and did not come in time; it is parked until it comes"
        return event("group parked", options.queue, _fixed(said, fields), fields, once=once)
    fields["until"] = one.until_us / 1e6
    said += f"; it waits until {moment(one.until_us / 1e6)}, unless that comes"
    return event("gap wait", options.queue, _fixed(said, fields), fields, once=once)


def lease_lost(queue: str, owner: str, key: str, token: str) -> Event:
    """A lease of this consumer ended before its acknowledgement."""
    group = decode_group(key)
    said = f"group={named(group)} token={token}; what it finished is not acknowledged"
    return event("lease lost", queue, said, {"group": list(group), "owner": owner, "token": token})


def answer_repeated(queue: str, owner: str, key: str) -> Event:
    """An acknowledgement that was sent twice was refused."""
    group = decode_group(key)
    said = f"group={named(group)}: a repeated acknowledgement was refused; its first attempt may have arrived"
    return event("answer repeated", queue, said, {"group": list(group), "owner": owner})


def server_lost(queue: str, error: BaseException | str, *, owner: str = "") -> Event:
    """The server can't be reached: by this consumer, or by any where no owner is given."""
    text = error_text(error)
    return event("server lost", queue, f"{text}; trying until it is back", {**_owned(owner), "error": text})


def server_back(queue: str, away_s: float, *, owner: str = "") -> Event:
    """The server is there again."""
    return event("server back", queue, f"after {away_s:.1f} s", {**_owned(owner), "away_s": round(away_s, 3)})


def _owned(owner: str) -> dict[str, str]:
    return {"owner": owner} if owner else {}


def leases_not_kept(queue: str, owner: str, error: BaseException) -> Event:
    """What the renewer does beside a handler failed; with its traceback where nobody foresaw it."""
    said, fields = _raised(error)
    cause = None if isinstance(error, SequencerError) else error
    return event("leases not kept", queue, f"{said}; trying again", {"owner": owner, **fields}, error=cause)


def groups_not_released(queue: str, owner: str, error: BaseException) -> Event:
    """A consumer ended, and the server does not know."""
    text = error_text(error)
    said = f"{text}; they wait until their leases end"
    return event("groups not released", queue, said, {"owner": owner, "error": text})


def failure_not_recorded(queue: str, owner: str, group: tuple[str, ...], error: BaseException) -> Event:
    """The server was not told that a message failed."""
    text = error_text(error)
    said = f"group={named(group)}: {text}; it is retried when the lease ends"
    return event("failure not recorded", queue, said, {"group": list(group), "owner": owner, "error": text})


def observer_failed(queue: str, observer: Callable[[Event], object], error: BaseException) -> Event:
    """An observer raised."""
    name = str(getattr(observer, "__qualname__", "") or type(observer).__name__)
    said, fields = _raised(error)
    said = f"{name} raised {said}; it is still told of events, and this is said once"
    return event("observer failed", queue, said, {"observer": name, **fields}, error=error)


def _raised(error: BaseException) -> tuple[str, dict[str, str]]:
    fields = {"error_type": type_name(error), "error": error_text(error)}
    return f"{fields['error_type']}: {fields['error']}", fields


def name_of(group: tuple[str, ...], message_id: str) -> str:
    """The same of one that is known by its group and id."""
    return f"group={named(group)} id={message_id}"


def _fixed(said: str, fields: Mapping[str, Any]) -> str:
    return f"{said}; see: {fields['see']}; then: {fields['fix']}"


def _removal(options: QueueOptions, owner: str, message: Message) -> str:
    return removal(owner, message.id, message.group, options.queue, options.namespace)


def _explain(options: QueueOptions, group: tuple[str, ...]) -> str:
    return _command(options, "explain", *group)


def _command(options: QueueOptions, name: str, *values: str, more: Sequence[str] = ()) -> str:
    return command(name, options.queue, *values, namespace=options.namespace, options=more)
