"""Dead letters: list them, count them, put them back into their places, delete them. Operations over a net.

They are found by pages, lane by lane, the oldest death first: first their names, then what is kept of those that fit.
Each page is put back or deleted by one call, which does nothing twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple, TypeVar

from .. import calls
from ..calls.net_protocol import Answer, Net
from ..errors import ConfigurationError, IdConflict, MessageNotFound
from ..store.envelope import encode_id
from ..store.failure import digest_of
from ..store.group import decode_group, encode_group
from ..store.item import Group, Id
from ..store.keys import LaneKeys
from ..store.record import Kept, LetterName, decode_letter
from ..store.replies import Reading, pairs, text
from ..values.checks import check_error, check_limit, check_rate, fits_error
from ..values.views import DeadLetter, Redriven
from .session import Session
from .stuck.one import Answering, answered

T = TypeVar("T")
Found = tuple[DeadLetter, Kept]
PAGE = 100
"""Letters read or moved by one call: their bodies may be large."""
NAMES_PAGE = 1000
NAMED_PARKED = 100
"""How many parked groups `redrive` names."""


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
        if everything == (group is not None or id is not None or error is not None):
            raise ConfigurationError(f"{action}: give group, id or error to choose some, or everything=True for all")
        return cls.of(group, id, error)

    def fits_name(self, letter: str) -> bool:
        name = LetterName.parse(letter)
        return self.group in (None, name.group) and self.id in (None, name.id)

    def fits(self, dead: DeadLetter) -> bool:
        return fits_error(self.error, dead.error)


# -- operations ------------------------------------------------------------------------------------------------


async def dead(
    session: Session,
    group: Group | None = None,
    *,
    id: Id | None = None,
    error: str | None = None,
    limit: int = 1000,
) -> list[DeadLetter]:
    """Dead letters, the oldest death first, at most `limit`; `error` is a type, or a pattern for "Type:
    message".
    """
    check_limit(limit)
    wanted = DeadLetterFilter.of(group, id, error)
    return (await oldest(session, await session.lanes(register=False), wanted))[:limit]


async def count_dead(
    session: Session, group: Group | None = None, *, id: Id | None = None, error: str | None = None
) -> int:
    """How many dead letters there are, chosen as for `dead`; reads their contents only for an `error`."""
    wanted = DeadLetterFilter.of(group, id, error)
    count = 0
    for keys in await session.lanes(register=False):
        if wanted.error is None:
            async for names in _names(session.net, keys, wanted):
                count += len(names)
        else:
            async for letters in _find(session, keys, wanted):
                count += len(letters)
    return count


async def redrive(
    session: Session,
    group: Group | None = None,
    *,
    id: Id | None = None,
    error: str | None = None,
    everything: bool = False,
    rate: float = 1000.0,
) -> Redriven:
    """Put dead letters back into their own places: same group, id, score and stamp, with fresh attempts.

    Those that fit all that is given, or all with `everything=True`; `error` is a type, or a pattern with `*` for
    "Type: message". At most `rate` messages a second. One stays a dead letter when a message with its id is pending
    again, or was handled since, within the queue's `dedup_window`; and one whose failure is not the one that was seen.
    Raises MessageNotFound when an `id` was given and is not there, IdConflict when it was given and all stay,
    ConfigurationError.
    """
    wanted = DeadLetterFilter.chosen(group, id, error, everything, "redrive")
    return await redrive_answered(session, wanted, id, rate, None)


async def redrive_answered(
    session: Session, wanted: DeadLetterFilter, id: Id | None, rate: float, answering: Answering | None
) -> Redriven:
    """As `redrive`, with what a person says of the steps of each. Raises LedgerError besides."""
    size, net = 1 if answering else max(1, min(PAGE, int(check_rate(rate) / 10))), session.net
    await session.allow("operate")
    began, sent = await net.now(), 0
    went: dict[LaneKeys, list[str]] = {}
    stay: dict[calls.Redriving, list[str]] = {"pending": [], "handled": [], "changed": []}
    for keys, letters in await _by_lane(session, wanted):
        went[keys] = []
        for page in _cut(letters, size):
            some = [letter.letter for letter, _ in page]
            ahead_s = began + sent / rate - await net.now()
            if ahead_s > 0:
                await net.sleep(ahead_s)
            digests = [digest_of(kept.failure) for _, kept in page]
            written = answered(page[0][1].record, page[0][0].letter, answering) if answering else None
            answer = await net.ask(calls.redrive(keys, some, digests=digests, written=written))
            with Reading(net.name):
                went[keys] += _gone(some, answer)
                for letter, outcome in zip(some, answer.value, strict=True):
                    if outcome in stay:
                        stay[outcome].append(letter)
            sent += len(some)
    done = sum(map(len, went.values()))
    if id is not None and not done:
        raise _refusal(id, stay) or _not_found(id, session)
    stayed = [LetterName.parse(letter) for names in stay.values() for letter in names][:NAMED_PARKED]
    named = tuple((decode_group(name.group), name.id) for name in stayed)
    return Redriven(done, len(stay["pending"]), await _parked(net, went), len(stay["handled"]), named)


async def purge(
    session: Session,
    group: Group | None = None,
    *,
    id: Id | None = None,
    error: str | None = None,
    everything: bool = False,
) -> int:
    """Delete dead letters for good, chosen as for `redrive`; how many there were.

    To repeat it deletes nothing else. Raises as `redrive` does.
    """
    wanted = DeadLetterFilter.chosen(group, id, error, everything, "purge")
    await session.allow("operate")
    count = 0
    for keys, letters in await _by_lane(session, wanted):
        for page in _cut(letters, PAGE):
            some = [letter.letter for letter, _ in page]
            answer = await session.net.ask(calls.purge(keys, some))
            # After a repeated call, those that were not there any more went with the first try.
            count += len(some) if answer.is_repeat else answer.value
    if id is not None and not count:
        raise MessageNotFound(f"{_not_found(id, session)}; if it was purged before, that is done")
    return count


# -- how they are found ----------------------------------------------------------------------------------------


async def oldest(session: Session, lanes: Iterable[LaneKeys], wanted: DeadLetterFilter) -> list[DeadLetter]:
    """Those of these lanes that fit, the oldest death first."""
    found: list[DeadLetter] = []
    for keys in lanes:
        async for letters in _find(session, keys, wanted):
            found += [letter for letter, _ in letters]
    return sorted(found, key=lambda letter: letter.died_at)


async def _names(net: Net, keys: LaneKeys, wanted: DeadLetterFilter) -> AsyncIterator[list[tuple[str, float]]]:
    """Name and time of death (us) of those in a lane that fit by name, the oldest death first; by pages."""
    start = 0
    while True:
        words = (await net.read(keys.dead, [("ZRANGE", keys.dead, start, start + NAMES_PAGE - 1, "WITHSCORES")]))[0]
        with Reading(net.name):
            page = [(text(name), float(at)) for name, at in pairs(words)]
        yield [(name, at) for name, at in page if wanted.fits_name(name)]
        start += NAMES_PAGE
        if len(page) < NAMES_PAGE:
            return


async def _find(session: Session, keys: LaneKeys, wanted: DeadLetterFilter) -> AsyncIterator[list[Found]]:
    """Those of a lane that fit, with what is kept of them, the oldest death first; by pages."""
    net = session.net
    names = [one async for page in _names(net, keys, wanted) for one in page]
    for some in _cut(names, PAGE):
        kept = (await net.read(keys.letters, [("HMGET", keys.letters, *[name for name, _ in some])]))[0]
        with Reading(net.name):
            found = [
                (decode_letter(name, words, at, session.options.queue), Kept.parse(words))
                for (name, at), words in zip(some, kept, strict=True)
                if words is not None
            ]
        yield [one for one in found if wanted.fits(one[0])]


async def _by_lane(session: Session, wanted: DeadLetterFilter) -> list[tuple[LaneKeys, list[Found]]]:
    """Those that fit, by score: within a group the first one goes back first."""
    found = []
    for keys in await session.lanes(register=False):
        letters = [one async for page in _find(session, keys, wanted) for one in page]
        found.append((keys, sorted(letters, key=lambda one: (one[0].message.score, one[0].letter))))
    return found


async def _parked(net: Net, went: dict[LaneKeys, list[str]]) -> list[tuple[str, ...]]:
    """The groups of these letters that are parked."""
    found: list[tuple[str, ...]] = []
    for keys, letters in went.items():
        for some in _cut(list(dict.fromkeys(LetterName.parse(letter).group for letter in letters)), NAMES_PAGE):
            times = await net.read(keys.schedule, [("ZSCORE", keys.schedule, group) for group in some])
            found += [decode_group(group) for group, at in zip(some, times, strict=True) if at == b"inf"]
    return found[:NAMED_PARKED]


def _refusal(id: Id, stay: dict[calls.Redriving, list[str]]) -> IdConflict | None:
    """Why none with this id went back."""
    why = {
        "pending": "a message with its id is pending again; see get",
        "handled": "a message with its id was handled since, within dedup_window: to have it handled once more, append "
        "it with replace",
        "changed": "its failure is not the one that was seen; look again",
    }
    for kind, letters in stay.items():
        for letter in letters:
            group = decode_group(LetterName.parse(letter).group)
            return IdConflict(str(id), group, f"dead letter {id!r} of group {list(group)} stays one: {why[kind]}")
    return None


def _gone(letters: Sequence[str], answer: Answer[list[calls.Redriving]]) -> list[str]:
    """Those that are back in their places. After a repeated call, one that is missing went with the first try."""
    went = ("redriven", "missing") if answer.is_repeat else ("redriven",)
    return [letter for letter, outcome in zip(letters, answer.value, strict=True) if outcome in went]


def _not_found(id: Id, session: Session) -> MessageNotFound:
    return MessageNotFound(f"no dead letter with id {id!r} fits in queue {session.options.queue!r}; list them first")


def _cut(items: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    return (items[first : first + size] for first in range(0, len(items), size))
