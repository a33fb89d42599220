"""The state of a group, and of a message in it, from what the server says of them. Pure.

The schedule holds for each group when a claim may take it next: its visible-at, in us. Two values are no time: PAUSED,
and infinity for a parked group. A group that was paused keeps its visible-at until the next claim puts it aside, and a
consumer that has it in progress keeps it until its lease is over. So a group may be two things at once, of which one
is said, on purpose not the same one everywhere:

- a group (`groups`, `info`): leased, else paused, else parked. A pause of the whole queue is no state of a group.
- an explanation: leased, else paused, be it the group or the queue, and what else keeps it beside that.
- a message (`get`): parked, else leased, else paused, be it the group or the queue.
"""

from __future__ import annotations

import math
from typing import Any

from ..calls.examine import GroupFacts
from ..errors import LeaseExpired
from ..store.failure import encode_failure
from ..store.keys import PAUSED
from ..store.record import decode_head, id_of, number_of, owner_of
from ..values.history import MessageState
from ..values.message import Failure
from ..values.views import GroupState


def is_leased(visible_us: float | None, lease: bytes | None, now_us: float) -> bool:
    """Whether a consumer holds the group: there is a lease, and it has not run out."""
    return bool(lease) and visible_us is not None and now_us < visible_us < PAUSED


def is_deferred(visible_us: float | None, now_us: float) -> bool:
    """Whether no claim takes the group now."""
    return visible_us is not None and visible_us > now_us


def expired_head(facts: GroupFacts) -> str:
    """The head of a group that a consumer had in progress when its lease ran out; "" where that is not so."""
    visible, arrived = facts.visible_us, number_of(facts.head)
    if visible is None or not (visible <= facts.now_us or visible == PAUSED) or not arrived:
        return ""
    was_there = max(arrived, decode_head(facts.head_record).due_us or 0) <= number_of(facts.lease)
    return facts.head if was_there else ""


def group_state(visible_us: float, lease: bytes | None, now_us: float, *, is_paused: bool = False) -> GroupState:
    """The state of a group that has messages; `is_paused`: it stands among the paused groups."""
    if is_leased(visible_us, lease, now_us):
        return "leased"
    if is_paused or visible_us == PAUSED:
        return "paused"
    if visible_us == math.inf:
        return "parked"
    return "waiting" if is_deferred(visible_us, now_us) else "due"


def message_state(facts: GroupFacts) -> tuple[MessageState, float | None]:
    """The state of a pending message, and its own time in us: now if it has none, None if it won't come by itself."""
    record, now, visible = decode_head(facts.record), facts.now_us, facts.visible_us
    own_us = record.due_us if record.due_us is not None else float(now)
    if visible == math.inf:
        return "parked", None
    is_head, has_lease = facts.member == facts.head, is_leased(visible, facts.lease, now)
    was_there = max(number_of(facts.member), record.due_us or 0) <= number_of(facts.lease) if has_lease else False
    if is_head and was_there:
        return "leased", own_us
    if facts.is_paused or facts.is_queue_paused or visible == PAUSED:
        return "paused", None
    if own_us > now:
        return "delayed", own_us
    if has_lease or not is_head:
        return "behind", own_us
    return ("waiting", visible) if is_deferred(visible, now) else ("due", own_us)


def lease_fields(facts: GroupFacts) -> dict[str, Any]:
    """Who holds the group and for how long, as fields of a text; "" and None where a lease shows neither."""
    since_us = number_of(facts.lease)
    held_s = max(0, facts.now_us - since_us) / 1e6 if since_us else None
    return {"owner": owner_of(facts.lease), "held_s": held_s}


def unanswered(facts: GroupFacts) -> bytes:
    """The failure that is kept with a head that is taken away after its lease ran out."""
    id, owner, attempts = id_of(facts.head), owner_of(facts.lease), decode_head(facts.head_record).attempts
    error = LeaseExpired("skipped_in_progress", owner=owner)
    failure = Failure(id, LeaseExpired.__name__, str(error), "", attempts + 1, facts.now_us / 1e6, owner)
    return encode_failure(failure, facts.head)
