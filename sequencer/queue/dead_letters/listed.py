"""Which dead letters there are: listed, counted, found for what changes them.

They are found by pages, in the order of their deaths: first their names, then what is kept of those that fit.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ...errors import ConfigurationError
from ...store.envelope import encode_id
from ...store.failure import digest_of
from ...store.group import encode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import DeadLetterContent, DeadLetterName, decode_dead_letter
from ...store.replies import text
from ...values.checks import check_error, check_integer, check_limit, fits_error
from ...values.views import DeadLetter, Page
from ..pages import batches, read
from ..places import FIRST, LOOKED, MAX_PAGE, Place, Row, each, in_shards, place_of, rows_behind
from ..session import Session
from ..steps.record_steps import record_steps

PAGE = 100
"""Letters read or moved by one call: their bodies may be large."""
NAMES_PAGE = 1000
NEWEST: Place = (math.inf, b"")


class DeadLetterFilter(NamedTuple):
    """Which dead letters: all that fit whatever is given."""

    group: str | None = None
    """Encoded."""
    id: str | None = None
    error: str | None = None
    """A pattern with `*` and `?` for "Type: message", or a type alone."""

    @classmethod
    def of(cls, group: Group | None, id: Id | None, error: str | None) -> DeadLetterFilter:
        """From what a caller gives. Raises ConfigurationError, InvalidGroup, InvalidId."""
        check_error(error)
        return cls(None if group is None else encode_group(group), None if id is None else encode_id(id), error)

    @classmethod
    def chosen(
        cls, group: Group | None, id: Id | None, error: str | None, everything: bool, action: str
    ) -> DeadLetterFilter:
        """For what changes them: to take all has to be said. Raises as `of`."""
        wanted = cls.of(group, id, error)
        if everything == (wanted != cls()):
            raise ConfigurationError("nothing_chosen", action=action, by="group, id or error")
        return wanted

    def fits_name(self, letter: str) -> bool:
        name = DeadLetterName.parse(letter)
        return self.group in (None, name.group) and self.id in (None, name.id)


class SeenDeadLetter(NamedTuple):
    """A dead letter as somebody saw it, without its body."""

    name: str
    error: str
    """Type of its failure."""
    digest: str
    """Of its failure: if that is another by then, the letter is left alone."""


# -- operations ------------------------------------------------------------------------------------------------


async def dead_page(
    session: Session,
    group: Group | None = None,
    *,
    id: Id | None = None,
    error: str | None = None,
    limit: int = 50,
    after: str | None = None,
    newest_first: bool = True,
) -> Page[DeadLetter]:
    """A page of dead letters, at most `limit` (up to 500), the newest death first unless `newest_first=False`.

    `error` is a type, or a pattern for "Type: message". `after`: what the page before ends with (`page.after`), of the
    same order. A letter that stays comes once, whatever comes and goes between two pages. About 2,000 letters are
    looked at for one page, so that one of few that fit may be short, even empty: only where its `after` is None nothing
    follows. Raises ConfigurationError, ServerError.
    """
    check_integer("limit", limit, 1, MAX_PAGE)
    wanted = DeadLetterFilter.of(group, id, error)
    place, looked = place_of(after, NEWEST if newest_first else FIRST), 0
    net, (shards, unreachable), found = session.net, await session.reachable(), list[DeadLetter]()
    size = limit if wanted == DeadLetterFilter() else NAMES_PAGE
    while True:
        rows = await rows_behind(net, shards, "dead", place, size, backwards=newest_first)
        for some in batches([row for row in rows if wanted.fits_name(text(row.member))], PAGE):
            found += [one for one, _ in await _letters(session, some, wanted)]
            if len(found) >= limit:
                return Page(found[:limit], found[limit - 1].place, unreachable)
        if len(rows) < size:
            return Page(found, None, unreachable)
        place, looked = rows[-1].place, looked + size
        if looked >= LOOKED:
            return Page(found, rows[-1].after, unreachable)


async def dead(
    session: Session,
    group: Group | None = None,
    *,
    id: Id | None = None,
    error: str | None = None,
    limit: int = 1000,
    after: str | None = None,
) -> list[DeadLetter]:
    """Dead letters, the oldest death first, at most `limit`; `error` is a type, or a pattern for "Type: message".

    Read by pages, as `dead_page`. `after`: the `place` of the last one of the list before. Raises ConfigurationError,
    ServerError.
    """
    check_limit(limit)
    read_page = partial(dead_page, session, group, id=id, error=error, newest_first=False)
    return [one async for one in each(read_page, limit, after)]


async def count_dead(
    session: Session, group: Group | None = None, *, id: Id | None = None, error: str | None = None
) -> int:
    """How many dead letters there are, chosen as for `dead`."""
    wanted = DeadLetterFilter.of(group, id, error)
    if wanted == DeadLetterFilter():
        return sum((await session.read_shards(int, lambda keys: [("ZCARD", keys.dead)])).values())
    count = 0
    for keys in (await session.reachable()).shards:
        async for letters in _found(session, keys, wanted):
            count += len(letters)
    return count


# -- how they are found ----------------------------------------------------------------------------------------


async def oldest(session: Session, shards: Iterable[ShardKeys], wanted: DeadLetterFilter) -> list[DeadLetter]:
    """Those of these shards that fit, the oldest death first."""
    found: list[DeadLetter] = []
    for keys in shards:
        async for letters in _found(session, keys, wanted):
            found += [dead for dead, _ in letters]
    return sorted(found, key=lambda letter: letter.died_at)


async def _found(
    session: Session, keys: ShardKeys, wanted: DeadLetterFilter
) -> AsyncIterator[list[tuple[DeadLetter, bytes]]]:
    """Those of a shard that fit, the oldest death first, each with what is kept of it; by pages."""
    rows, place = list[Row](), FIRST
    while not rows or len(rows) == NAMES_PAGE:
        rows = await rows_behind(session.net, [keys], "dead", place, NAMES_PAGE)
        for some in batches([row for row in rows if wanted.fits_name(text(row.member))], PAGE):
            yield await _letters(session, some, wanted)
        if not rows:
            return
        place = rows[-1].place


async def _letters(session: Session, rows: Sequence[Row], wanted: DeadLetterFilter) -> list[tuple[DeadLetter, bytes]]:
    """Those of the rows that fit, in their order, each with what is kept of it."""
    kept: dict[bytes, bytes | None] = {}
    for keys, some in in_shards(rows).items():
        names = [row.member for row in some]
        kept |= zip(names, await read(session.net, list, ("HMGET", keys.dead_letters, *names)), strict=True)
    found = [
        (_letter(session.options.queue, row, content), content)
        for row in rows
        if (content := kept[row.member]) is not None
    ]
    return [one for one in found if fits_error(wanted.error, one[0].error)]


def _letter(queue: str, row: Row, kept: bytes) -> DeadLetter:
    letter = text(row.member)
    _, group, id = DeadLetterName.parse(letter)
    steps = record_steps(queue, group, id, DeadLetterContent.parse(kept).record, is_dead=True)
    found = decode_dead_letter(letter, kept, row.score, queue)
    # Its failure knows more where steps count their own attempts, and where it was skipped after its lease ran out.
    attempts = max(found.attempts, found.error.attempt)
    if steps and not attempts:  # one of them began, and how it ended is unknown
        attempts = max((one.attempts for one in steps.steps), default=0)
    return replace(found, steps=steps, attempts=attempts, place=row.after)


async def by_shard(session: Session, wanted: DeadLetterFilter) -> list[tuple[ShardKeys, list[SeenDeadLetter]]]:
    """Those that fit, by score: within a group the first one goes back first."""
    found = []
    for keys in await session.shards():
        by_score: list[tuple[float, SeenDeadLetter]] = []
        async for letters in _found(session, keys, wanted):
            for dead, kept in letters:
                digest = digest_of(DeadLetterContent.parse(kept).failure)
                by_score.append((dead.message.score, SeenDeadLetter(dead.letter, dead.error.type, digest)))
        found.append((keys, [letter for _, letter in sorted(by_score)]))
    return found
