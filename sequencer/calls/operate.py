"""Calls of the scripts that people use on a queue rather than consumers: resume, skip_gap, wake, update,
pause, redrive, purge, rerun, sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from ..store.failure import digest_of
from ..store.keys import ShardKeys
from ..store.ledger.written import Written
from ..store.replies import text
from ..store.text import dumps_words
from .call import Call, now_text

Redriving = Literal["redriven", "missing", "pending", "handled", "changed"]
Resuming = Literal["resumed", "gone", "changed"]
Ending = Literal["", "dead", "drop", "discard"]
"""What becomes of a failed head: it stays, it becomes a dead letter, it is gone where no effects are noted, or is gone
anyhow."""
MAX_RESUME = 100
"""Groups in one call of `resume`: 2 to 4 ms of the server's time, in which it does nothing else."""


class Resumed(NamedTuple):
    """Outcome of `resume`, with score and record of the removed message when it skipped one."""

    status: Literal["resumed", "due", "leased", "changed", "missing", "unfailed", "effects"]
    score: str
    record: bytes
    attempts: int = 0
    """That its failure tells, which may know more than its record."""


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
    now_us: int | None = None,
) -> Call[Resumed]:
    """Make a parked or waiting group due; with an ending, take away the failed member first and set the watermark.

    `written`: the ledger with what a person said of its steps. `told`: the failure of the head of a group whose lease
    ran out, where the one that was seen is not about it; only that head is taken away then.
    """
    ledger = written.text().decode("utf-8", "surrogateescape") if written else ""
    words = (group, digest_of(failure), member, mark, ledger, told.decode("utf-8", "surrogateescape"))
    return Call(
        "resume",
        (keys.schedule,),
        (dumps_words([words]), ending, "0", now_text(now_us)),
        lambda reply: Resumed(reply[0][0].decode(), reply[1].decode(), reply[2]),
    )


class ParkedGroup(NamedTuple):
    """A group that is parked behind a failure, as somebody saw it."""

    group: str
    """Encoded."""
    digest: str
    """Of its failure: if that is another by then, the group is left alone."""
    member: str
    """Of its failure; "" for the head."""
    error: str
    """Type of its failure."""
    mark: str = ""
    """Its watermark once the member is passed; "" to leave it."""


def resume_many(
    keys: ShardKeys, groups: Sequence[ParkedGroup], *, ending: Ending = "", now_us: int | None = None
) -> Call[list[Resuming]]:
    """Make many parked groups due, those that are as they were seen; what became of each. At most MAX_RESUME."""
    words = [(one.group, one.digest, one.member, one.mark, "", "") for one in groups]
    return Call(
        "resume",
        (keys.schedule,),
        (dumps_words(words), ending, "1", now_text(now_us)),
        lambda reply: [status.decode() for status in reply[0]],
    )


def wake(
    keys: ShardKeys, group: str, *, now_us: int | None = None
) -> Call[Literal["woken", "due", "leased", "failed", "paused", "missing"]]:
    """Let a claim look again at a group that sleeps without a failure."""
    return Call(
        "wake",
        (keys.schedule,),
        (group, now_text(now_us)),
        lambda reply: reply.decode(),
    )


def skip_gap(
    keys: ShardKeys, group: str, member: str, old_mark: str, mark: str, *, now_us: int | None = None
) -> Call[Literal["skipped", "leased", "changed"]]:
    """Set the watermark of a sequence to just before its head, if head and watermark are still those."""
    return Call(
        "skip_gap",
        (keys.schedule,),
        (group, member, old_mark, mark, now_text(now_us)),
        lambda reply: reply.decode(),
    )


def update(
    keys: ShardKeys, group: str, message_id: str, score: str, due: str, *, now_us: int | None = None
) -> Call[Literal["done", "missing", "leased", "effects"]]:
    """Cancel a message (`score` ""), or give it another time and score ("due": that time if it was its score; "s", "ms"
    or "us": that time in this unit).
    """
    return Call(
        "update",
        (keys.schedule,),
        (group, message_id, score, due, now_text(now_us)),
        lambda reply: reply.decode(),
    )


def pause(keys: ShardKeys, group: str, is_paused: bool, *, now_us: int | None = None) -> Call[bool]:
    """Hold a group, or with "" the shard, or let it go on; whether that changed something."""
    return Call(
        "pause",
        (keys.schedule,),
        (group, "1" if is_paused else "0", now_text(now_us)),
        bool,
    )


def redrive(
    keys: ShardKeys,
    letters: Sequence[str],
    *,
    digests: Sequence[str] = (),
    written: Written | None = None,
    skipped: bool = False,
    now_us: int | None = None,
) -> Call[list[Redriving]]:
    """Put dead letters back into their own places; what became of each. With `skipped`: the last skipped message.

    `digests`: of the failure of each, as it was seen; one whose failure is another stays. `written`: the ledger of the
    only letter, with what a person said of its steps.
    """
    words = [word for pair in zip_longest(letters, digests, fillvalue="") for word in pair]
    outcomes: dict[int, Redriving] = {
        ord("+"): "redriven",
        ord("-"): "missing",
        ord("="): "pending",
        ord("~"): "handled",
        ord("!"): "changed",
    }
    return Call(
        "redrive",
        (keys.schedule,),
        (
            "skipped" if skipped else "dead_letters",
            dumps_words(words),
            written.text() if written else "",
            now_text(now_us),
        ),
        lambda reply: [outcomes[mark] for mark in reply],
    )


def purge(keys: ShardKeys, letters: Sequence[str], *, now_us: int | None = None) -> Call[int]:
    """Delete dead letters; how many there were."""
    return Call(
        "purge",
        (keys.schedule,),
        (dumps_words(letters), now_text(now_us)),
        int,
    )


class Rerun(NamedTuple):
    """What became of a rerun, the new id, and its stamp, 0 unless it was added
    now. "again": an earlier call added it.
    """

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
    *,
    now_us: int | None = None,
) -> Call[Rerun]:
    """Append a message that ended once more, as history keeps it. `stamp`: that of its record, as it was seen;
    `new_id`: the base of the new id, and the number tried first after it.
    """
    base, number = new_id
    ledger = written.text() if written else ""
    return Call(
        "rerun",
        (keys.schedule,),
        (group, message_id, stamp, base, str(number), envelope, ledger, now_text(now_us)),
        lambda reply: Rerun(reply[0].decode(), text(reply[1]), int(reply[2] or 0)),
    )


class SweptShard(NamedTuple):
    """What `sweep` deleted in a shard: messages of its history, dead letters; how many of those it looked at and left;
    whether there may be more to do.
    """

    history: int
    dead: int
    passed: int
    is_more: bool


def sweep(keys: ShardKeys, passed: int = 0, *, now_us: int | None = None) -> Call[SweptShard]:
    """Drop what history and dead letters have that is older than the policy keeps it, or above its cap.

    `passed`: how many dead letters the calls before have looked at and left.
    """
    return Call(
        "sweep",
        (keys.schedule,),
        (str(passed), now_text(now_us)),
        lambda reply: SweptShard(int(reply[0]), int(reply[1]), int(reply[2]), reply[3] == b"1"),
    )
