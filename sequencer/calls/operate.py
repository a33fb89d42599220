"""Calls of the scripts that operators use on a queue, not consumers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from ..store.failure import digest_of
from ..store.keys import ShardKeys
from ..store.ledger import Written
from ..store.replies import text
from .call import Call, on_shard

Redriving = Literal["redriven", "missing", "pending", "handled", "changed"]
_REDRIVING: dict[int, Redriving] = {
    ord("+"): "redriven",
    ord("-"): "missing",
    ord("="): "pending",
    ord("~"): "handled",
    ord("!"): "changed",
}
Resuming = Literal["resumed", "gone", "changed"]
Ending = Literal["", "dead", "drop", "discard"]
"""What becomes of a failed head: "drop" only where no effects are noted, "discard" anyhow."""
MAX_RESUME = 100
"""Groups in one call of `resume`: 2 to 4 ms of the server's time, in which it does nothing else."""


def _status(reply: bytes) -> Any:
    return reply.decode()


class Resumed(NamedTuple):
    """Outcome of `resume`, with score and record of the removed message when it skipped one."""

    status: Literal["resumed", "due", "leased", "changed", "missing", "unfailed", "effects"]
    score: str
    record: bytes
    attempts: int = 0  # that its failure tells, which may know more than its record


def resume(
    keys: ShardKeys,
    group: str,
    failure: bytes,
    member: str,
    *,
    ending: Ending = "",
    mark: str = "",
    written: Written | None = None,
    told: bytes = b"",
) -> Call[Resumed]:
    """Make a parked or waiting group due; with an ending, take away the failed member first and set the watermark.

    `written`: the ledger with an operator's answers. `told`: the failure of the head of a group whose lease ran out,
    where the one that was seen is not about it; only that head is taken away then.
    """
    words = (group, digest_of(failure), member, mark, text(written.text()) if written else "", text(told))

    def parse(reply: Any) -> Resumed:
        return Resumed(reply[0][0].decode(), reply[1].decode(), reply[2])

    return on_shard(keys, "resume", [words], ending, False, parse=parse)


class ParkedGroup(NamedTuple):
    """A group that is parked behind a failure, as it was seen."""

    group: str  # encoded
    digest: str  # of its failure: if that is another by then, the group is left alone
    member: str  # of its failure; "" for the head
    error: str  # type of its failure
    mark: str = ""  # its watermark once the member is passed; "" to leave it


def resume_many(keys: ShardKeys, groups: Sequence[ParkedGroup], *, ending: Ending = "") -> Call[list[Resuming]]:
    """Make many parked groups due, those that are as they were seen; what became of each. At most MAX_RESUME."""
    words = [(one.group, one.digest, one.member, one.mark, "", "") for one in groups]
    return on_shard(keys, "resume", words, ending, True, parse=lambda reply: [*map(_status, reply[0])])


def wake(keys: ShardKeys, group: str) -> Call[Literal["woken", "due", "leased", "failed", "paused", "missing"]]:
    """Let a claim check a group again that sleeps without a failure."""
    return on_shard(keys, "wake", group, parse=_status)


def skip_gap(
    keys: ShardKeys, group: str, member: str, old_mark: str, mark: str
) -> Call[Literal["skipped", "leased", "changed"]]:
    """Set the watermark of a sequence to just before its head, if head and watermark are still those."""
    return on_shard(keys, "skip_gap", group, member, old_mark, mark, parse=_status)


def update(
    keys: ShardKeys, group: str, message_id: str, score: str, due: str
) -> Call[Literal["done", "missing", "leased", "effects"]]:
    """Cancel a message (`score` ""), or give it another time and score. `due`: "due", or a unit, where both are one."""
    return on_shard(keys, "update", group, message_id, score, due, parse=_status)


def pause(keys: ShardKeys, group: str, is_paused: bool) -> Call[bool]:
    """Hold a group, or with "" the shard, or let it go on; whether that changed something."""
    return on_shard(keys, "pause", group, is_paused, parse=bool)


def redrive(
    keys: ShardKeys,
    letters: Sequence[str],
    *,
    digests: Sequence[str] = (),
    written: Written | None = None,
    skipped: bool = False,
) -> Call[list[Redriving]]:
    """Put dead letters back into their own places; what became of each. With `skipped`: the last skipped message.

    `digests`: of the failure of each, as it was seen; one whose failure is another stays. `written`: the ledger of the
    only letter, with what an operator answered about its steps.
    """
    words = [word for pair in zip_longest(letters, digests, fillvalue="") for word in pair]
    source = "skipped" if skipped else "dead_letters"
    return on_shard(keys, "redrive", source, words, written, parse=lambda reply: [_REDRIVING[mark] for mark in reply])


def purge(keys: ShardKeys, letters: Sequence[str]) -> Call[int]:
    """Delete dead letters; how many there were."""
    return on_shard(keys, "purge", letters, parse=int)


class Rerun(NamedTuple):
    """What became of a rerun ("again": an earlier call added it), the new id, and its stamp, 0 unless added now."""

    status: Literal["added", "again", "pending", "missing"]
    id: str
    stamp: int


def rerun(
    keys: ShardKeys,
    group: str,
    message_id: str,
    stamp: str,
    new_id: tuple[str, int],
    envelope: bytes,
    written: Written | None = None,
) -> Call[Rerun]:
    """Append an ended message once more. `stamp`: of its record as seen; `new_id`: base of the new id, first number."""

    def parse(reply: Any) -> Rerun:
        return Rerun(reply[0].decode(), text(reply[1]), int(reply[2] or 0))

    return on_shard(keys, "rerun", group, message_id, stamp, *new_id, envelope, written, parse=parse)


class SweptShard(NamedTuple):
    """What `sweep` deleted in a shard, of history and dead letters; how many of those it left; whether more is left."""

    history: int
    dead: int
    passed: int
    is_more: bool


def sweep(keys: ShardKeys, passed: int = 0) -> Call[SweptShard]:
    """Drop history and dead letters that are too old or above the cap. `passed`: letters that calls before left."""

    def parse(reply: Any) -> SweptShard:
        return SweptShard(int(reply[0]), int(reply[1]), int(reply[2]), reply[3] == b"1")

    return on_shard(keys, "sweep", passed, parse=parse)
