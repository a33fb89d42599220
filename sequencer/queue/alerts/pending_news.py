"""Parked groups and dead letters of which a target was not told yet, by name. Operations over a net."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ... import calls
from ...calls.alerts import PendingNewsGroup
from ...calls.net_protocol import Command
from ...store.failure import ASKING, decode_failure
from ...store.group import decode_group
from ...store.keys import ShardKeys
from ...store.record import DeadLetterName
from ...store.replies import Reading
from ...store.text import dumps_words, loads_words
from ...texts.commands import command, id_option
from ...values.message import Failure
from ..session import Session

NAMED = 10
"""This many are named in one message; the others are counted."""
KEPT_CHARACTERS = 200
"""Of an error that an incident keeps."""
FORGET_PAGES = 50
"""Names that are looked at in one sweep, by pages of 200."""


class NamedHead(NamedTuple):
    """A parked head or a dead letter, as people are told of it."""

    group: tuple[str, ...]
    id: str
    failure: Failure
    commands: tuple[str, ...]
    """What settles it."""


def heads_text(heads: Sequence[NamedHead]) -> str:
    """As an incident keeps them, for a target that hears of its end alone: without commands, and errors cut."""
    rows = [
        [list(one.group), one.id, one.failure.type, one.failure.message[:KEPT_CHARACTERS], one.failure.at]
        for one in heads
    ]
    return dumps_words(rows).decode("utf-8", "replace")


def heads_in(text: str) -> list[NamedHead]:
    """What `heads_text` wrote."""
    found = []
    for group, id, type, message, at in loads_words(text.encode()) if text else []:
        found.append(NamedHead(tuple(group), id, Failure(id, type, message, "", 0, at, ""), ()))
    return found


@dataclass(slots=True)
class News:
    """What a target was not told of."""

    groups: list[tuple[ShardKeys, PendingNewsGroup]] = field(default_factory=list)
    letters: list[tuple[ShardKeys, str]] = field(default_factory=list)
    """Of each shard with some, when the last one died: us as text."""
    heads: list[NamedHead] = field(default_factory=list)
    """The first parked groups; then `dead_heads` of the dead letters."""
    dead_heads: list[NamedHead] = field(default_factory=list)
    dead: int = 0

    def digest(self, kind: str) -> str:
        """The same for the same failures of parked groups, or for the same dead letters; "" for none."""
        words = [[keys.prefix, one.group, one.at] for keys, one in self.groups]
        if kind == "dead":
            words = [[keys.prefix, dead_us] for keys, dead_us in self.letters]
        return hashlib.sha256(dumps_words(sorted(words))).hexdigest()[:16] if words else ""

    def counts(self) -> dict[str, int]:
        """Of the conditions of which there is something new: how much."""
        return {kind: count for kind, count in (("parked", len(self.groups)), ("dead", self.dead)) if count}

    def heads_of(self, kind: str) -> list[NamedHead]:
        """What can be named."""
        return self.dead_heads if kind == "dead" else self.heads


Amounts = tuple[int, ...]
"""How many groups were parked in a shard so far, and letters died; how many of each there are. While they are the same,
nothing is new.
"""


@dataclass(slots=True)
class ShardProgress:
    """How far a shard was looked through for a target."""

    first: int = 0
    """This many parked groups were looked at in this round."""
    began: Amounts | None = None
    """The amounts at its beginning."""
    is_clean: bool = True
    """Nothing in it was new."""
    quiet: Amounts | None = None
    """The amounts of a round that was clean to its end."""


async def amounts(session: Session) -> dict[str, Amounts]:
    """Of each shard, by its prefix: cheap to ask, and others where a group was parked or a letter died.

    The totals see a group that parks again while another goes on. Raises ServerError.
    """
    found = {}
    for keys in await session.shards():
        commands: list[Command] = [
            ("HMGET", keys.stats, "parked", "dead"),
            ("ZCOUNT", keys.schedule, "inf", "inf"),
            ("ZCARD", keys.dead),
        ]
        totals, parked, dead = await session.net.read(commands)
        with Reading(session.net.name):
            found[keys.prefix] = (*(int(total or 0) for total in totals), int(parked), int(dead))
    return found


async def news_of(
    session: Session,
    target: str,
    progress: MutableMapping[str, ShardProgress],
    *,
    pages: int | None = None,
    known: Mapping[str, Amounts] | None = None,
) -> News:
    """What the target was not told of, from where the last look ended by `progress`, by shard, which is set again.

    At most `pages` hundreds of parked groups are looked at in each shard; None: all. `known`: `amounts` from before
    this
    look; a shard in which nothing was new is left out until it has others. Raises ServerError.
    """
    found = News()
    for keys in await session.shards():
        one, there = progress.setdefault(keys.prefix, ShardProgress()), (known or {}).get(keys.prefix)
        if there is None or there != one.quiet:
            await _look_at(session, keys, target, one, there, pages, found)
    del found.dead_heads[NAMED:]
    return found


async def _look_at(
    session: Session,
    keys: ShardKeys,
    target: str,
    at: ShardProgress,
    there: Amounts | None,
    pages: int | None,
    found: News,
) -> None:
    if not at.first:
        at.began, at.is_clean = there, True
    looked, is_end = 0, False
    while not is_end and (pages is None or looked < pages):
        shard = (await session.net.ask(calls.pending_news(keys, target, at.first))).value
        looked, is_end = looked + 1, shard.looked_at < 100
        at.first = 0 if is_end else at.first + shard.looked_at
        at.is_clean = at.is_clean and not shard.groups and not shard.dead
        for one in shard.groups:
            found.groups.append((keys, one))
            if len(found.heads) < NAMED:
                found.heads.append(_parked_head(session, one))
    if shard.dead:
        found.dead += shard.dead
        found.letters.append((keys, shard.dead_us))
        found.dead_heads += [_dead_head(session, *one) for one in shard.letters]
    at.quiet = there if is_end and at.is_clean and at.began == there else None


async def parked_errors(session: Session) -> dict[str, int]:
    """How many groups are parked by each type of error, the most frequent first. Raises ServerError."""
    found = await news_of(session, "", {})  # nobody was told of anything
    types = Counter(decode_failure(one.failure)[0].type for _, one in found.groups if one.failure)
    return dict(types.most_common())


async def mark_notified(session: Session, target: str, news: News, kind: str) -> None:
    """Keep that the target was told of these: parked groups, or dead letters. Raises ServerError."""
    if kind == "dead":
        for keys, dead_us in news.letters:
            await session.net.ask(calls.told(keys, target, dead_us=dead_us))
        return
    for keys in {keys.prefix: keys for keys, _ in news.groups}.values():
        groups = [one for shard, one in news.groups if shard.prefix == keys.prefix]
        for at in range(0, len(groups), 500):
            await session.net.ask(calls.told(keys, target, groups[at : at + 500]))


async def forget_told(session: Session) -> None:
    """Forget groups that are parked no longer, in pages. To repeat it is harmless. Raises ServerError."""
    for keys in await session.shards():
        cursor = "0"
        for _ in range(FORGET_PAGES):
            cursor = (await session.net.ask(calls.told(keys, "", cursor=cursor))).value
            if cursor == "0":
                break


def _parked_head(session: Session, one: PendingNewsGroup) -> NamedHead:
    queue, namespace, group = session.options.queue, session.options.namespace, decode_group(one.group)
    failure = decode_failure(one.failure)[0] if one.failure else Failure("", "", "", "", 0, 0.0, "")
    if failure.type in ASKING:
        lines = [command("steps", queue, *group, namespace=namespace)]
    else:
        names = ("resume", "skip")
        lines = [command(name, queue, *group, namespace=namespace) for name in names]
    return NamedHead(group, failure.id, failure, tuple(lines))


def _dead_head(session: Session, letter: str, failure: bytes) -> NamedHead:
    _, group, id = DeadLetterName.parse(letter)
    queue, namespace = session.options.queue, session.options.namespace
    line = command("dead redrive", queue, namespace=namespace, options=id_option(id))
    known = decode_failure(failure)[0] if failure else Failure("", "", "", "", 0, 0.0, "")
    return NamedHead(decode_group(group), id, known, (line,))
