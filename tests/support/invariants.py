"""What is broken in the data of a queue, in words."""

from __future__ import annotations

from sequencer.doctor.invariants import InvariantCheck
from sequencer.net.link import Link
from sequencer.store.keys import ShardKeys


def check_invariants(link: Link, shards: list[ShardKeys]) -> list[str]:
    """One sentence for each broken invariant. Changes nothing. Raises ServerError."""
    return [finding.text for finding in InvariantCheck(link, shards).run()]
