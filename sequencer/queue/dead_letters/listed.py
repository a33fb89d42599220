"""Which dead letters there are: listed, counted, found for what changes them.

They are found by pages, shard by shard, the oldest death first: first their names, then what is kept of those that fit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import NamedTuple

from ...errors import ConfigurationError
from ...store.envelope import encode_id
from ...store.failure import digest_of
from ...store.group import encode_group
from ...store.item import Group, Id
from ...store.keys import ShardKeys
from ...store.record import DeadLetterContent, DeadLetterName, decode_dead_letter
from ...store.replies import scored, text
from ...values.checks import check_error, check_limit, fits_error
from ...values.views import DeadLetter
from ..pages import batches, read
from ..session import Session
from ..steps.record_steps import record_steps

PAGE = 100
"""Letters read or moved by one call: their bodies may be large."""
NAMES_PAGE = 1000


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


async def dead(
    session: Session, group: Group | None = None, *, id: Id | None = None, error: str | None = None, limit: int = 1000
) -> list[DeadLetter]:
    """Dead letters, the oldest death first, at most `limit`; `error` is a type, or a pattern for "Type: message"."""
    check_limit(limit)
    wanted = DeadLetterFilter.of(group, id, error)
    return (await oldest(session, await session.shards(), wanted))[:limit]


async def count_dead(
    session: Session, group: Group | None = None, *, id: Id | None = None, error: str | None = None
) -> int:
    """How many dead letters there are, chosen as for `dead`."""
    wanted = DeadLetterFilter.of(group, id, error)
    if wanted == DeadLetterFilter():
        return sum(await session.read_shards(int, lambda keys: [("ZCARD", keys.dead)]))
    count = 0
    for keys in await session.shards():
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
    names, start, size = list[tuple[str, float]](), 0, NAMES_PAGE
    while size == NAMES_PAGE:
        page = await read(session.net, scored, ("ZRANGE", keys.dead, start, start + NAMES_PAGE - 1, "WITHSCORES"))
        start, size = start + NAMES_PAGE, len(page)
        names += [(name, at) for name, at in ((text(word), at) for word, at in page) if wanted.fits_name(name)]
    for some in batches(names, PAGE):
        contents: list[bytes | None] = await read(
            session.net, list, ("HMGET", keys.dead_letters, *[name for name, _ in some])
        )
        found = [
            (_letter(session.options.queue, name, kept, at), kept)
            for (name, at), kept in zip(some, contents, strict=True)
            if kept is not None
        ]
        yield [one for one in found if fits_error(wanted.error, one[0].error)]


def _letter(queue: str, letter: str, kept: bytes, died_us: float) -> DeadLetter:
    _, group, id = DeadLetterName.parse(letter)
    steps = record_steps(queue, group, id, DeadLetterContent.parse(kept).record, is_dead=True)
    found = decode_dead_letter(letter, kept, died_us, queue)
    # Its failure knows more where steps count their own attempts, and where it was skipped after its lease ran out.
    attempts = max(found.attempts, found.error.attempt)
    if steps and not attempts:  # one of them began, and how it ended is unknown
        attempts = max((one.attempts for one in steps.steps), default=0)
    return replace(found, steps=steps, attempts=attempts)


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
