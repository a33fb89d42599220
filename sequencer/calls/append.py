"""The call of append.lua, and what its reply says of each message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

from ..errors import InvalidMessage
from ..store.item import Item
from ..store.keys import ShardKeys
from ..store.record import STAMP_DIGITS
from ..store.text import dumps_words
from .call import Args, Call

MAX_APPEND = 1000
"""Messages in one append call: the script's longest `unpack`, and about 10 ms of the server's time."""


class ItemOutcome(NamedTuple):
    """What became of one item, and the stamp of the message that is pending under its id, 0 when that was handled.

    "taken": its number is pending under another id. "undone" is a "stored" of a call that stored nothing, because
    another item of it was refused. "effects": it is not replaced, as effects of its steps are noted.
    """

    outcome: Outcome
    stamp: int
    backlog: int | None = None  # how many messages its group has then, where that was asked


OnConflict = Literal["none", "others", "error", "replace", "error_replace"]
Outcome = Literal["stored", "duplicate", "conflict", "taken", "refused", "dropped", "dead_letter", "undone", "effects"]
REFUSALS: tuple[Outcome, ...] = ("conflict", "taken", "refused", "effects")
_BY_SIGN: dict[int, Outcome] = {
    ord("+"): "stored",
    ord("="): "duplicate",
    ord("!"): "conflict",
    ord("#"): "taken",
    ord("<"): "refused",
    ord("~"): "dropped",
    ord("x"): "dead_letter",
    ord("*"): "effects",
}
_SIZE = 1 + STAMP_DIGITS
_UNSTAMPED = {letter: ItemOutcome(outcome, 0) for letter, outcome in _BY_SIGN.items()}


def _parse_one(reply: bytes) -> list[ItemOutcome]:
    if len(reply) != _SIZE:
        raise ValueError("reply_length")
    return [ItemOutcome(_BY_SIGN[reply[0]], int(reply[1:]))]


def _parse(reply: bytes, count: int, *, with_stamps: bool) -> list[ItemOutcome]:
    if len(reply) == _SIZE and reply[:1] == b"+":  # all are stored, with stamps in a row
        stamps = range(int(reply[1:]), int(reply[1:]) + count)
        return [ItemOutcome("stored", stamp) for stamp in stamps] if with_stamps else [_UNSTAMPED[reply[0]]] * count
    if len(reply) != count * _SIZE:
        raise ValueError("reply_length")
    if not with_stamps:
        return [_UNSTAMPED[letter] for letter in reply[::_SIZE]]
    return [ItemOutcome(_BY_SIGN[reply[i]], int(reply[i + 1 : i + _SIZE])) for i in range(0, len(reply), _SIZE)]


def _parse_with_backlog(reply: bytes) -> list[ItemOutcome]:
    (one,) = _parse_one(reply[:_SIZE])
    return [one._replace(backlog=int(reply[_SIZE:]))]


def append(
    keys: ShardKeys,
    items: Sequence[Item],
    *,
    on_conflict: OnConflict = "none",
    dry_run: bool = False,
    with_stamps: bool = True,
    backlog: bool = False,
) -> Call[list[ItemOutcome]]:
    """Store up to 1,000 messages of one shard, atomically; `on_conflict` says what a conflict does to the others.

    Without `with_stamps` those of several have 0 for a stamp, and are read many times as fast.

    "none" and "error" store nothing then, "others" the rest; "replace" takes the place of what is pending under the id,
    which a repeat would do again after that was handled. A `dry_run` stores nothing, and says what would be. `backlog`,
    of one message: say how many its group has then.
    """
    how = (on_conflict, "1" if dry_run else "2" if backlog else "0")
    is_repeatable = dry_run or on_conflict not in ("replace", "error_replace")
    parse_one = _parse_with_backlog if backlog else _parse_one
    parse = parse_one if len(items) == 1 else partial(_parse, count=len(items), with_stamps=with_stamps)
    return Call(
        "append", (keys.schedule, keys.clock, keys.dispatch, keys.stats), _arguments(items, how), parse, is_repeatable
    )


class RelayBatch(NamedTuple):
    """Of an outbox's relay: its name, the number of this batch, and that of its last one in this shard (0: none)."""

    relay: str
    number: int
    before: int


def append_batch(keys: ShardKeys, items: Sequence[Item], batch: RelayBatch) -> Call[list[ItemOutcome] | int]:
    """Store up to 1,000 messages of one shard once, all or none: after that the shard has the number of this batch.

    Where it has another last number than `before`, nothing is stored and that number is the answer: it has this batch
    already, or lost some before it.
    """

    def parse(reply: bytes) -> list[ItemOutcome] | int:
        return int(reply[1:]) if reply[:1] == b"F" else _parse(reply, len(items), with_stamps=False)

    how: tuple[OnConflict, str] = ("none", f"{batch.relay} {batch.number} {batch.before}")
    written = keys.schedule, keys.clock, keys.dispatch, keys.stats
    return Call("append", written, _arguments(items, how), parse, repeatable=False)  # of a repeat the answer is "F"


def _arguments(items: Sequence[Item], how: tuple[OnConflict, str]) -> Args:
    if not 1 <= len(items) <= MAX_APPEND:
        raise InvalidMessage("too_many_messages", most=MAX_APPEND, count=len(items))
    group, message_id, score, envelope, due, ledger = items[0]
    if len(items) == 1 and not due and not ledger:
        return (*how, "", envelope, group, message_id, score)
    flat = [word for item in items for word in item[:3]]
    dues = [word for position, item in enumerate(items, 1) if item.due for word in (position, item.due)]
    ledgers = [word for at, item in enumerate(items, 1) if item.ledger for word in (at, item.ledger.decode())]
    return (*how, dumps_words([flat, dues, ledgers]), *[item.envelope for item in items])
