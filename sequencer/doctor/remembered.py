"""What the ids of handled messages take of the server's memory, and whether they are kept as long as they should be."""

from __future__ import annotations

from collections.abc import Iterator

from ..net.link import Link
from ..store.keys import ShardKeys
from ..texts.commands import command
from ..texts.words import many
from ..values.views import Finding

ID_BYTES = 76
"""Of a remembered id of 16 to 21 characters on Redis 7.0; on Valkey 9.1 it is 44 to 57 (benchmark `memory`)."""


def told_ids(link: Link, namespace: str, queue: str, shards: list[ShardKeys]) -> Iterator[Finding]:
    """How many are remembered, and what they take. Raises ServerError."""
    count, full = 0, 0
    for keys in shards:
        window_us, cap = (
            int(word) if word and word.isdigit() and len(word) <= 18 else 0
            for word in link.command("HMGET", keys.policy, "dedup_us", "dedup_cap")
        )
        new, old = link.commands([("SCARD", keys.seen), ("SCARD", keys.seen_old)])
        count += new + old
        full = max(full, cap) if 0 < cap <= old else full
    if not count or not window_us:
        return
    window_s = window_us / 1e6
    text = (
        f"queue {queue}: {many(count, 'id')} of handled messages remembered, about {count * ID_BYTES / 1e6:.1f} MB; "
        f"dedup_window={window_s:g} s takes up to {2 * window_s * ID_BYTES / 1e3:.0f} kB for each message a second"
    )
    if full:
        raising = command("configure", queue, namespace=namespace, options=["--dedup-cap", str(4 * full)])
        text += f"; but dedup_cap={full:,} ends it early, and repeats may be handled again. To raise it: {raising}"
    yield Finding("ids", "warning" if full else "ok", text)
