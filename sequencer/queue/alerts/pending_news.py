"""Parked groups and dead letters of which a target was not notified yet, by name. Operations over a net."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ... import calls
from ...calls.alerts import PendingNewsGroup
from ...store.failure import ASKING, decode_failure
from ...store.group import decode_group
from ...store.keys import ShardKeys
from ...store.record import DeadLetterName
from ...store.text import dumps_words
from ...texts.commands import line
from ...values.message import Failure
from ..pages import batches
from ..session import Session

NAMED = 10
"""This many are named in one message; the others are counted."""
NOTIFIED_PAGE = 500
FORGET_PAGES = 50
"""Names that are read in one sweep, by pages of 200."""


class NamedHead(NamedTuple):
    """A parked head or a dead letter, as a notice names it."""

    group: tuple[str, ...]
    id: str
    failure: Failure
    commands: tuple[str, ...]
    """What settles it."""


@dataclass(slots=True)
class News:
    """What a target was not notified of."""

    groups: dict[ShardKeys, list[PendingNewsGroup]] = field(default_factory=dict)
    """Parked ones, of each shard with some."""
    died_us: dict[ShardKeys, str] = field(default_factory=dict)
    """Of each shard with dead letters, when the last one died."""
    counts: Counter[str] = field(default_factory=Counter)
    """By condition, "parked" or "dead": how many."""
    heads: dict[str, list[NamedHead]] = field(default_factory=lambda: {"parked": [], "dead": []})
    """By condition: the first of them."""

    def digest(self, kind: str) -> str:
        """The same for the same failures of parked groups, or for the same dead letters; "" for none."""
        words = [[keys.prefix, one.group, one.at] for keys, some in self.groups.items() for one in some]
        if kind == "dead":
            words = [[keys.prefix, died_us] for keys, died_us in self.died_us.items()]
        return hashlib.sha256(dumps_words(sorted(words))).hexdigest()[:16] if words else ""


Amounts = tuple[int, ...]
"""How many groups parked and letters died in a shard so far, and how many there are: unchanged, nothing is new."""


@dataclass(slots=True)
class ShardProgress:
    """How far a shard was read for a target."""

    first: int = 0
    """This many parked groups were read in this round."""
    began: Amounts | None = None
    """The amounts at its beginning."""
    is_clean: bool = True
    quiet: Amounts | None = None
    """The amounts of a round that was clean to its end."""


async def amounts(session: Session) -> dict[str, Amounts]:
    """Of each shard, by prefix. The totals see a group that parks again while another goes on. Raises ServerError."""
    found = await session.read_shards(
        lambda totals, parked, dead: (*(int(total or 0) for total in totals), int(parked), int(dead)),
        lambda keys: [
            ("HMGET", keys.stats, "parked", "dead"),
            ("ZCOUNT", keys.schedule, "inf", "inf"),
            ("ZCARD", keys.dead),
        ],
    )
    return {keys.prefix: amounts for keys, amounts in found.items()}


async def news_of(
    session: Session,
    target: str,
    progress: MutableMapping[str, ShardProgress],
    *,
    pages: int | None = None,
    known: Mapping[str, Amounts] | None = None,
) -> News:
    """What the target was not notified of, from where the last check ended by `progress`, by shard, which is set again.

    At most `pages` hundreds of parked groups are read in each shard; None: all. `known`: `amounts` from before
    this check; a shard in which nothing was new is left out until it has others. Raises ServerError.
    """
    found = News()
    for keys in (await session.reachable()).shards:
        at, there = progress.setdefault(keys.prefix, ShardProgress()), (known or {}).get(keys.prefix)
        if there is not None and there == at.quiet:
            continue
        if not at.first:
            at.began, at.is_clean = there, True
        pages_read, is_end, groups = 0, False, list[PendingNewsGroup]()
        while not is_end and (pages is None or pages_read < pages):
            shard = await session.ask(calls.pending_news(keys, target, at.first))
            pages_read, is_end = pages_read + 1, shard.looked_at < 100
            at.first = 0 if is_end else at.first + shard.looked_at
            at.is_clean = at.is_clean and not shard.groups and not shard.dead
            groups += shard.groups
        if groups:
            found.groups[keys] = groups
            found.counts["parked"] += len(groups)
            found.heads["parked"] += [_parked_head(session, one) for one in groups[:NAMED]]
        if shard.dead:
            found.died_us[keys] = shard.dead_us
            found.counts["dead"] += shard.dead
            found.heads["dead"] += [_dead_head(session, *one) for one in shard.letters]
        at.quiet = there if is_end and at.is_clean and at.began == there else None
    for heads in found.heads.values():
        del heads[NAMED:]
    return found


async def parked_errors(session: Session) -> dict[str, int]:
    """How many groups are parked by each of the most frequent types of error, in that order. Raises ServerError."""
    found = await news_of(session, "", {})  # nobody was notified of anything
    failures = (one.failure for groups in found.groups.values() for one in groups if one.failure)
    return dict(Counter(decode_failure(failure)[0].type for failure in failures).most_common(NAMED))


async def mark_notified(session: Session, target: str, news: News, kind: str) -> None:
    """Keep that the target was notified of these: parked groups, or dead letters. Raises ServerError."""
    if kind == "dead":
        for keys, died_us in news.died_us.items():
            await session.ask(calls.mark_notified(keys, target, dead_us=died_us))
        return
    for keys, groups in news.groups.items():
        for some in batches(groups, NOTIFIED_PAGE):
            await session.ask(calls.mark_notified(keys, target, some))


async def forget_resumed(session: Session) -> None:
    """Forget groups that are parked no longer, in pages. To repeat it is harmless. Raises ServerError."""
    for keys in (await session.reachable()).shards:
        cursor = "0"
        for _ in range(FORGET_PAGES):
            cursor = await session.ask(calls.mark_notified(keys, "", cursor=cursor))
            if cursor == "0":
                break


def _parked_head(session: Session, one: PendingNewsGroup) -> NamedHead:
    group, failure = decode_group(one.group), decode_failure(one.failure)[0]
    names, about = ("steps",) if failure.type in ASKING else ("resume", "skip"), {"group": group, **session.names}
    return NamedHead(group, failure.id, failure, tuple(line(f"sequencer {name} QUEUE GROUP", about) for name in names))


def _dead_head(session: Session, letter: str, failure: bytes) -> NamedHead:
    _, group, id = DeadLetterName.parse(letter)
    redrive = line("sequencer dead redrive QUEUE --id ID", {"id": id, **session.names})
    return NamedHead(decode_group(group), id, decode_failure(failure)[0], (redrive,))
