"""Why a group does not move, from what the server says about it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..calls.examine import GroupFacts
from ..settings.options import QueueOptions
from ..settings.policy import Policy
from ..store.failure import ASKING, decode_failure, error_line, log_of
from ..store.group import decode_group
from ..store.keys import PAUSED
from ..store.record import decode_head, id_of, number_of, owner_of, stamp_of
from ..store.watermark import Sequenced
from ..texts.explanations import Explanation, Reason
from ..values.owner import is_held_long
from .state import expired_head, is_deferred, is_leased, lease_fields


class Cause(NamedTuple):
    """Why, when it may move by itself in us, and what is known of that."""

    reason: Reason
    until_us: float | None = None
    fields: Mapping[str, Any] = {}


def missing_number(facts: GroupFacts, policy: Policy) -> tuple[int, int] | None:
    """The numbers that a sequence waits for before its head: first and last."""
    if not (policy.sequence and facts.head) or decode_head(facts.head_record).flag == "R":
        return None
    if not math.isfinite(float(facts.head_score)):
        return None  # no client of ours wrote it: it is handed out, and found undecodable
    return Sequenced.parse(facts.mark).missing_before(int(float(facts.head_score)))


def explanation(group: str, facts: GroupFacts, policy: Policy, options: QueueOptions) -> Explanation:
    """The reason, and when the group may move by itself. A pause comes first, with what it would wait for without."""
    is_held = facts.is_paused or facts.visible_us == PAUSED
    has_lease = is_leased(facts.visible_us, facts.lease, facts.now_us)
    if has_lease or not (is_held or facts.is_queue_paused) or _broken(facts, policy):
        return _explained(group, facts, _with_outage(_cause(facts, policy), facts), options)
    visible = facts.now_us if facts.visible_us == PAUSED else facts.visible_us
    inner = _cause(facts._replace(is_paused=False, is_queue_paused=False, visible_us=visible), policy)
    outer = Cause("paused" if is_held else "queue paused")
    found = _explained(group, facts, outer, options)
    return found if inner.reason == "due" else replace(found, then=_explained(group, facts, inner, options))


def _explained(group: str, facts: GroupFacts, cause: Cause, options: QueueOptions) -> Explanation:
    reason, until_us, fields = cause
    moves_in_s = None if until_us is None or math.isinf(until_us) else max(0.0, (until_us - facts.now_us) / 1e6)
    where = {"queue": options.queue, "namespace": options.namespace}
    return Explanation(
        decode_group(group),
        reason,
        moves_in_s,
        max(0, facts.order_size),
        id_of(facts.head) or None,
        {**where, **fields},
        log_of(facts.failure) if facts.failure else (),
    )


def _cause(facts: GroupFacts, policy: Policy) -> Cause:
    if broken := _broken(facts, policy):
        return Cause("broken", None, {"what": broken})
    if not facts.order_size or facts.visible_us is None:
        return Cause("nothing")
    now, visible = facts.now_us, facts.visible_us
    if is_leased(visible, facts.lease, now):
        is_long = is_held_long(now, number_of(facts.lease), visible)
        is_paused = facts.is_paused or facts.is_queue_paused
        fields = {**lease_fields(facts), "until": visible / 1e6, "is_long": is_long, "is_paused": is_paused}
        return Cause("leased", visible, fields)
    failed = _failed(facts) if facts.failure else {}
    if math.isinf(visible) and failed:
        is_unresolved = decode_failure(facts.failure)[0].type in ASKING
        return Cause("unresolved step" if is_unresolved else "parked", None, failed)
    if closed := _gate(facts, policy):
        return closed
    if is_deferred(visible, now) and failed:
        return Cause("backoff", visible, {**failed, "until": visible / 1e6})
    if is_deferred(visible, now):
        return Cause("due", visible, {"until": visible / 1e6})
    expired = owner_of(facts.lease) if facts.lease else ""
    fields = {"waits_s": (now - visible) / 1e6, "expired_owner": expired, "is_droppable": bool(expired_head(facts))}
    return Cause("due", now, fields)


def _failed(facts: GroupFacts) -> dict[str, Any]:
    failure = decode_failure(facts.failure)[0]
    return {
        "id": failure.id or id_of(facts.head),
        "error": error_line(failure),
        "message": failure.message,
        "attempt": failure.attempt,
        "outages": failure.outages,
        # From the tenth outage in a row on one may count: then the record has it.
        "is_counted": 0 < failure.attempt <= decode_head(facts.head_record).attempts,
    }


def _with_outage(cause: Cause, facts: GroupFacts) -> Cause:
    """What holds the shard back comes before what the group would do else."""
    is_asleep = cause.reason == "due" and is_deferred(facts.visible_us, facts.now_us)
    if facts.outage is None or is_asleep or cause.reason not in ("due", "backoff"):
        return cause
    since_us, probe_us, record = facts.outage
    until_us = max(probe_us, facts.now_us)
    fields = {"since": since_us / 1e6, "until": until_us / 1e6, "error": error_line(decode_failure(record)[0])}
    return Cause("outage", until_us, fields)


def _gate(facts: GroupFacts, policy: Policy) -> Cause | None:
    """What keeps the head from being handled, as the claim sees it: its own time, the window, a missing number."""
    now, record = facts.now_us, decode_head(facts.head_record)
    arrived = number_of(facts.head)
    if record.due_us is not None and record.due_us > now:
        return Cause("delayed", record.due_us, {"until": record.due_us / 1e6})
    ripe = arrived + policy.reorder_window * 1e6
    if policy.reorder_window and record.flag != "R" and ripe > now:
        return Cause("window", ripe, {"window_s": policy.reorder_window, "until": ripe / 1e6})
    missing = missing_number(facts, policy)
    if missing is None:
        return None
    fields = {"first": missing[0], "last": missing[1], "number": int(float(facts.head_score)), "on_gap": policy.on_gap}
    ends = arrived + policy.gap_timeout * 1e6
    if ends > now and facts.visible_us != math.inf:
        return Cause("gap", ends, {**fields, "until": ends / 1e6})
    return None if policy.on_gap == "skip" else Cause("gap", math.inf, fields)


def _broken(facts: GroupFacts, policy: Policy) -> str:
    visible, size = facts.visible_us, facts.order_size
    if size < 0 or facts.body_size < 0:
        return "wrong type"
    if size != facts.body_size:
        return "order and body differ"
    if size and visible is None:
        return "group unscheduled"
    if not size and visible is not None:
        return "empty group scheduled"
    if not size and (facts.lease or facts.failure):
        return "lease without group" if facts.lease else "failure without group"
    if facts.lease and not stamp_of(facts.lease).isdecimal():
        return "lease unreadable"
    if size and not stamp_of(facts.head).isdecimal():
        return "stamp unreadable"
    if size and stamp_of(facts.head_record) != stamp_of(facts.head):
        return "message without record"
    if visible is not None and math.isinf(visible):
        if facts.lease:
            return "leased and parked"
        if not facts.failure and (missing_number(facts, policy) is None or policy.on_gap == "skip"):
            return "parked without reason"
    return "paused without entry" if visible == PAUSED and not facts.is_paused else ""
