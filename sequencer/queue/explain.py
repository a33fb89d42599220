"""Why a group does not move, in one sentence, from what the server says about it. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from ..calls.examine import GroupFacts
from ..settings.options import QueueOptions
from ..settings.policy import Policy
from ..store.failure import ASKING, decode_failure, log_of
from ..store.group import decode_group
from ..store.keys import PAUSED
from ..store.record import decode_head, id_of, owner_of, stamp_of
from ..store.watermark import Sequenced
from ..texts.commands import command
from ..texts.explanations import advice, ending, no_consumers_text
from ..texts.words import many, named
from ..values.history import MessageSteps
from ..values.message import Failure
from ..values.owner import NoConsumers, is_held_long
from ..values.views import Explanation
from .lease_owner import exact_moment, lease_owner_of, removing
from .state import is_deferred, is_leased

COMMANDS: dict[str, list[tuple[str, str, bool]]] = {
    "parked": [("to resume it", "resume", True), ("to go on without that message", "skip", True)],
    "backoff": [("to try at once", "resume", True)],
    "paused": [("to unpause it", "unpause", True)],
    "queue paused": [("to unpause it", "unpause", False)],
    "due": [("if that lasts, see", "info", False)],
}
"""Reason -> for what, the command, and whether it names the group."""


class LongestHeld(NamedTuple):
    """What consumers have in progress longest: for how long, which group, and whose it is."""

    held_s: float
    group: tuple[str, ...]
    owner: str


def missing_number(facts: GroupFacts, policy: Policy) -> tuple[int, int] | None:
    """The numbers that a sequence waits for before its head: first and last."""
    if not (policy.sequence and facts.head) or decode_head(facts.head_record).flag == "R":
        return None
    if not math.isfinite(float(facts.head_score)):
        return None  # no client of ours wrote it: it is handed out, and found undecodable
    return Sequenced.parse(facts.mark).missing_before(int(float(facts.head_score)))


def explanation(group: str, facts: GroupFacts, policy: Policy, *, probe: str = "") -> Explanation:
    """The reason, a sentence, and when the group may move by itself; `probe`: the command that probes an outage.

    A pause comes first, with what the group would wait for without it.
    """
    is_held = facts.is_paused or facts.visible_us == PAUSED
    has_lease = is_leased(facts.visible_us, facts.lease, facts.now_us)
    if has_lease or not (is_held or facts.is_queue_paused) or _broken(facts, policy):
        return _with_outage(_explain(group, facts, policy), facts, probe)
    visible = facts.now_us if facts.visible_us == PAUSED else facts.visible_us
    inner = _explain(group, facts._replace(is_paused=False, is_queue_paused=False, visible_us=visible), policy)
    name = f"group {named(inner.group)}"
    text = f"{name} {'is paused' if is_held else 'waits, as the whole queue is paused'}"
    if inner.reason != "due":
        text += f"; when that ends, it {inner.text.removeprefix(name).strip()}"
    return replace(inner, reason="paused" if is_held else "queue paused", text=text, moves_in_s=None)


def _explain(group: str, facts: GroupFacts, policy: Policy) -> Explanation:
    def because(reason: Any, text: str, until_us: float | None = None) -> Explanation:
        moves_in_s = None if until_us is None or math.isinf(until_us) else max(0.0, (until_us - facts.now_us) / 1e6)
        name, size = named(decode_group(group)), max(0, facts.order_size)
        head_id = id_of(facts.head) or None
        log = log_of(facts.failure) if facts.failure else ()
        return Explanation(decode_group(group), reason, f"group {name} {text}", moves_in_s, size, head_id, log)

    broken = _broken(facts, policy)
    if broken:
        fix = command("doctor", options=["--repair"])
        return because("broken", f"is broken: {broken}; to repair what can be repaired: {fix}")
    if not facts.order_size or facts.visible_us is None:
        return because("nothing", "has no messages; append one")
    now, visible = facts.now_us, facts.visible_us
    head = id_of(facts.head)
    if is_leased(visible, facts.lease, now):
        owner, since_s = lease_owner_of(facts)
        then = "; it is to be paused then" if facts.is_paused or facts.is_queue_paused else ""
        text = f"is leased by {owner} for {since_s:.1f} s now, until {_when(visible, now)}"
        end = advice(owner) if is_held_long(now, now - since_s * 1e6, visible) else ending(owner)
        text += f" unless that is prolonged; it moves when {head} is handled{then}; {end}"
        return because("leased", text, visible)
    if math.isinf(visible) and facts.failure:
        failure = decode_failure(facts.failure)[0]
        if failure.type in ASKING:  # its text has the commands that answer
            return because("question", f"is parked on {failure.id or head}: {failure.message}")
        said = f"{failure.type}: {failure.message}".split("\n")[0][:200]
        tried = f" after {_attempts(failure.attempt)}" if failure.attempt else ""
        return because("parked", f"is parked on {failure.id or head}{tried} ({said})")
    closed = _gate(facts, policy, head)
    if closed:
        reason, text, until = closed
        return because(reason, text, until)
    if is_deferred(visible, now) and facts.failure:
        failure = decode_failure(facts.failure)[0]
        said = f"{failure.type}: {failure.message}".split("\n")[0][:200]
        tried = _outages(failure, facts) if failure.outages else _attempts(failure.attempt)
        text = f"backs off until {_when(visible, now)} after {tried} of {failure.id} ({said})"
        return because("backoff", text, visible)
    if is_deferred(visible, now):
        text = f"is deferred until {_when(visible, now)} by a rule that holds no more"
        return because("due", f"{text}; resume it to wake it", visible)
    waits = f"is due for {(now - visible) / 1e6:.1f} s"
    if facts.lease:
        owner = owner_of(facts.lease)
        waits = f"is due: the lease of {owner} ran out {(now - visible) / 1e6:.1f} s ago"
    return because("due", f"{waits} and waits for a free consumer", now)


def _with_outage(found: Explanation, facts: GroupFacts, probe: str) -> Explanation:
    """What holds the shard back comes before what the group would do else."""
    is_asleep = found.reason == "due" and is_deferred(facts.visible_us, facts.now_us)
    if facts.outage is None or is_asleep or found.reason not in ("due", "backoff"):
        return found
    since_us, probe_us, failure = facts.outage
    text = f"group {named(found.group)} waits, as the whole queue does, for the end of an outage: since "
    text += (
        f"{exact_moment(since_us)} handlers fail with {_said(failure)}; next probe at {_when(probe_us, facts.now_us)}"
    )
    text += f"; to probe at once: {probe}" if probe else ""
    return replace(found, reason="outage", text=text, moves_in_s=max(0.0, (probe_us - facts.now_us) / 1e6))


def with_commands(found: Explanation, options: QueueOptions) -> Explanation:
    """With the commands that make it move, or show why it does not."""
    text = found.text
    for said, name, is_of_group in COMMANDS.get(found.reason, ()):
        group = found.group if is_of_group else ()
        text += f"; {said}: {command(name, options.queue, *group, namespace=options.namespace)}"
    return replace(found, text=text)


def with_longest(found: Explanation, longest: LongestHeld, options: QueueOptions) -> Explanation:
    """Of a group that is due for long: what keeps the consumers, and the command that says how that ends."""
    see = command("explain", options.queue, *longest.group, namespace=options.namespace)
    held = f"in progress longest: group {named(longest.group)}, for {longest.held_s:.1f} s, by {longest.owner}"
    return replace(found, text=f"{found.text}; {held}; see: {see}")


def with_removal(found: Explanation, group: str, facts: GroupFacts, options: QueueOptions) -> Explanation:
    """Of a group in progress, or whose lease ran out: with what takes its first message away."""
    return replace(found, text=found.text + removing(group, facts, options)) if found.reason != "broken" else found


def with_steps(found: Explanation, steps: MessageSteps | None) -> Explanation:
    """Of a group in progress: what is noted of the steps of its first message."""
    if steps is None or not steps.steps:
        return found
    return replace(found, text=f"{found.text}; its steps so far: {steps.said}")


def with_no_consumers(
    found: Explanation, nobody: NoConsumers | None, waits_s: float, options: QueueOptions
) -> Explanation:
    """Of a group that is due: that nobody consumes, where that is known."""
    if nobody is None:
        return found
    text = f"group {named(found.group)} is due for {waits_s:.1f} s, and "
    text += no_consumers_text(nobody, options.queue, options.namespace)
    return replace(found, reason="no_consumers", text=text, moves_in_s=None)


def _said(record: bytes) -> str:
    failure = decode_failure(record)[0]
    return f"{failure.type}: {failure.message}".split("\n")[0][:200]


def _attempts(count: int) -> str:
    return many(count, "failed attempt")


def _outages(failure: Failure, facts: GroupFacts) -> str:
    """From the tenth in a row on one may count: then the record has it."""
    is_counted = 0 < failure.attempt <= decode_head(facts.head_record).attempts
    counted = (
        f"the last of them counted as attempt {failure.attempt}" if is_counted else "of which no attempt was counted"
    )
    return f"{many(failure.outages, 'outage')}, {counted},"


def _when(at_us: float, now_us: int) -> str:
    return f"{exact_moment(at_us)} (in {max(0.0, at_us - now_us) / 1e6:.1f} s)"


def _gate(facts: GroupFacts, policy: Policy, head: str) -> tuple[str, str, float] | None:
    """What keeps the head from being handled, as the claim sees it: its own time, the window, a missing number."""
    now, record = facts.now_us, decode_head(facts.head_record)
    arrived = int(stamp_of(facts.head))
    if record.due_us is not None and record.due_us > now:
        return (
            "delayed",
            f"waits for its first message, {head}, which is delayed until {_when(record.due_us, now)}",
            (record.due_us),
        )
    ripe = arrived + policy.reorder_window * 1e6
    if policy.reorder_window and record.flag != "R" and ripe > now:
        text = f"waits for stragglers: {head} is handled {policy.reorder_window:g} s after its arrival"
        return "window", f"{text}, at {_when(ripe, now)}", ripe
    missing = missing_number(facts, policy)
    if missing is None:
        return None
    first, last = missing
    which = f"number {first}" if first == last else f"numbers {first} to {last}"
    text = f"waits for {which}, missing before {int(float(facts.head_score))} ({head})"
    ends = arrived + policy.gap_timeout * 1e6
    if ends > now and facts.visible_us != math.inf:
        then = "it is parked then" if policy.on_gap == "park" else "then it goes on without"
        return "gap", f"{text}, until {_when(ends, now)}, and {then}; append what is missing, or skip it", ends
    if policy.on_gap == "skip":
        return None
    return "gap", f"is parked: it {text}, and gap_timeout is over; append what is missing, or skip it", math.inf


def _broken(facts: GroupFacts, policy: Policy) -> str:
    """The invariant that does not hold, or ""."""
    visible, size = facts.visible_us, facts.order_size
    if size < 0 or facts.body_size < 0:
        return f"its {'order' if size < 0 else 'body'} key holds another type than ours"
    if size != facts.body_size:
        return f"its order holds {many(size, 'message')} and its body {facts.body_size:,}"
    if size and visible is None:
        return f"it has {many(size, 'message')} but is not in the schedule, so that no consumer sees it"
    if not size and visible is not None:
        return "it is in the schedule without a message"
    if not size and (facts.lease or facts.failure):
        return f"it has a {'lease' if facts.lease else 'failure'} and no message"
    if facts.lease and not stamp_of(facts.lease).isdecimal():
        return "its lease can't be read"
    if size and not stamp_of(facts.head).isdecimal():
        return f"its first message has no stamp: {facts.head!r}"
    if size and stamp_of(facts.head_record) != stamp_of(facts.head):
        return f"its head {id_of(facts.head)} has no record of its own in the body"
    if visible is not None and math.isinf(visible):
        if facts.lease:
            return "it is leased and parked at once"
        if not facts.failure and (missing_number(facts, policy) is None or policy.on_gap == "skip"):
            return "it is parked without a failure or a missing number to wait for"
    if visible == PAUSED and not facts.is_paused:
        return "it is held as paused, but is not among the paused groups"
    return ""
