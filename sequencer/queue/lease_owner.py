"""Who has a group in progress, and what takes a message away that hangs there, or hung until its lease ran out.
Pure.
"""

from __future__ import annotations

from typing import Any

from ..calls.examine import GroupFacts
from ..errors import LeaseExpired
from ..store.failure import encode_failure
from ..store.record import decode_head, id_of, owner_of, stamp_of
from ..values.message import Failure


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


def unanswered(facts: GroupFacts) -> bytes:
    """The failure that is kept with a head that is taken away after its lease ran out."""
    id, owner, attempts = id_of(facts.head), owner_of(facts.lease), decode_head(facts.head_record).attempts
    said = f"consumer {owner} had it in progress when its lease ran out, and did not answer; then somebody skipped it"
    failure = Failure(id, LeaseExpired.__name__, said, "", attempts + 1, facts.now_us / 1e6, owner)
    return encode_failure(failure, facts.head)
