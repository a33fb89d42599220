"""Who has a group in progress, and what takes a message away that hangs there, or hung until its lease ran out.
Pure.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ..calls.examine import GroupFacts
from ..errors import LeaseExpired
from ..settings.options import QueueOptions
from ..store.failure import encode_failure
from ..store.group import decode_group
from ..store.record import decode_head, id_of, owner_of, stamp_of
from ..texts.commands import removal, skipping
from ..values.message import Failure
from .state import expired_head, is_leased


def lease_owner_of(facts: GroupFacts) -> tuple[str, float]:
    """Who has the group's lease, and for how many seconds by now."""
    since_us = int(stamp_of(facts.lease))
    return owner_of(facts.lease), max(0, facts.now_us - since_us) / 1e6


def lease_fields(facts: GroupFacts) -> dict[str, Any]:
    """Who holds the group and for how long, as fields of an error; "" and None where a lease shows neither."""
    if not stamp_of(facts.lease).isdecimal():
        return {"owner": "", "held_s": None}
    owner, held_s = lease_owner_of(facts)
    return {"owner": owner, "held_s": held_s}


def removing(group: str, facts: GroupFacts, options: QueueOptions) -> str:
    """What takes a head away that hangs, or hung until its lease ran out; "" where neither may be."""
    id, parts, names = id_of(facts.head), decode_group(group), (options.queue, options.namespace)
    if is_leased(facts.visible_us, facts.lease, facts.now_us):
        is_paused = facts.is_paused or facts.is_queue_paused
        return f": {removal(owner_of(facts.lease), id, parts, *names, is_paused=is_paused)}"
    if not expired_head(facts):
        return ""
    first = " first" if facts.is_paused or facts.is_queue_paused else ""
    had = f"which {owner_of(facts.lease)} had in progress when its lease ran out"
    return f"; to take {id} away{first}, {had}: {skipping(id, parts, *names)}"


def unanswered(facts: GroupFacts) -> bytes:
    """The failure that is kept with a head that is taken away after its lease ran out."""
    id, owner, attempts = id_of(facts.head), owner_of(facts.lease), decode_head(facts.head_record).attempts
    said = f"consumer {owner} had it in progress when its lease ran out, and did not answer; then somebody skipped it"
    failure = Failure(id, LeaseExpired.__name__, said, "", attempts + 1, facts.now_us / 1e6, owner)
    return encode_failure(failure, facts.head)


def exact_moment(at_us: float) -> str:
    said = datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(sep=" ", timespec="milliseconds")
    return f"{said.removesuffix('+00:00')} UTC"
