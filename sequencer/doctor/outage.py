"""Checks what holds a shard back in an outage: that it is whole, and that people know of it.

The field `probe_us` of a shard's policy says that an outage holds the shard back; the hash `outage` says since when and
why. Scripts write and remove both at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..net.link import Link
from ..store.failure import decode_failure
from ..store.keys import ShardKeys
from ..store.replies import micros
from ..texts.commands import command
from ..texts.words import many
from ..values.views import Finding


def broken_outage(link: Link, keys: ShardKeys, *, repair: bool) -> Iterator[Finding]:
    """One half without the other; repaired by removing it, which lets the shard go on. Raises ServerError."""
    before = _halves(link, keys)
    probe_us, opened_us = _halves(link, keys)
    if before != (probe_us, opened_us):
        return  # it began, was probed or ended just now
    if probe_us is not None and not (probe_us.isdigit() and opened_us is not None):
        if repair:
            link.command("HDEL", keys.policy, "probe_us")
            link.command("DEL", keys.outage)
        text = f"{keys.policy} has probe_us {probe_us[:30]!r} and {keys.outage} does not say since when"
        yield Finding("outage", "problem", f"{text}{'; fixed: the shard goes on' if repair else ''}", repair)
    elif probe_us is None and opened_us is not None:
        if repair:
            link.command("DEL", keys.outage)
        text = f"{keys.outage} tells of an outage, and {keys.policy} has no probe_us that holds the shard back"
        yield Finding("outage", "problem", f"{text}{'; fixed: removed' if repair else ''}", repair)


def _halves(link: Link, keys: ShardKeys) -> tuple[bytes | None, bytes | None]:
    probe_us, opened_us = link.commands([("HGET", keys.policy, "probe_us"), ("HGET", keys.outage, "opened_us")])
    return probe_us, opened_us


def told_outage(link: Link, namespace: str, queue: str, shards: list[ShardKeys]) -> Iterator[Finding]:
    """What holds a shard back now, and the command that probes at once. Raises ServerError."""
    for shard, keys in enumerate(shards):
        now_us = micros(link.command("TIME"))
        probe_us, (failure, probes) = link.commands(
            [("HGET", keys.policy, "probe_us"), ("HMGET", keys.outage, "failure", "probes")]
        )
        if probe_us is None or not probe_us.isdigit():
            continue
        known, wait_s = decode_failure(failure or b"")[0], max(0.0, (int(probe_us) - now_us) / 1e6)
        error = f"{known.type}: {known.message}".split("\n")[0][:200]
        what = f"shard {shard} of queue {queue}" if len(shards) > 1 else f"queue {queue}"
        failed = many(int(probes or 0), "probe")
        text = f"{what} is held back by an outage: {error}; {failed} failed, next in {wait_s:.1f} s"
        fix = command("resume", queue, namespace=namespace, options=["--outage"])
        yield Finding("outage", "warning", f"{text}; to probe at once: {fix}")
