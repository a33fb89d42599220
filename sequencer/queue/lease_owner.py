"""Who has a group in progress, and what takes a message away that hangs there, or hung until its lease ran out.
Pure.
"""

from __future__ import annotations

from datetime import UTC, datetime

from ..calls.examine import GroupFacts
from ..errors import LeaseExpired
from ..settings.options import QueueOptions
from ..store.failure import encode_failure
from ..store.group import decode_group
from ..store.record import decode_head, id_of, owner_of, stamp_of
from ..texts.commands import removal, skipping
from ..texts.explanations import ending
from ..values.message import Failure
from .state import expired_head, is_leased


def lease_owner_of(facts: GroupFacts) -> tuple[str, float]:
    """Who has the group's lease, and for how many seconds by now."""
    since_us = int(stamp_of(facts.lease))
    return owner_of(facts.lease), max(0, facts.now_us - since_us) / 1e6


def held_by(group: str, facts: GroupFacts, options: QueueOptions) -> str:
    """Who has the group in progress, since when, and what ends that; behind "is held by"."""
    if not stamp_of(facts.lease).isdecimal():
        return "a consumer just now"
    owner, since_s = lease_owner_of(facts)
    said = removing(group, facts, options)
    if not is_leased(facts.visible_us, facts.lease, facts.now_us):
        pause = ", once it is unpaused" if facts.is_paused or facts.is_queue_paused else ""
        return f"{owner}, whose lease ran out: a consumer takes it over{pause}{said}"
    held = f"{owner} for {since_s:.1f} s now, since {exact_moment(facts.now_us - since_s * 1e6)}"
    left_s = ((facts.visible_us or 0) - facts.now_us) / 1e6
    held += f", with {id_of(facts.head)} first; its lease ends in {left_s:.1f} s unless it is prolonged"
    return f"{held}; {ending(owner)}{said}"


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
