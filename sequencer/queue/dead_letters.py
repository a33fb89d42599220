"""Dead letters of a queue: list them, put them back into their places, delete them."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..calls.operate import Redriving, purge, redrive
from ..errors import ConfigurationError, shown
from ..net.link import Link
from ..store.group import decode_group
from ..store.keys import LaneKeys
from ..store.record import STAMP_DIGITS, decode_letter
from ..values.views import DeadLetter, Redriven

PAGE = 100
"""Letters read or moved by one call: their bodies may be large."""
NAMES_PAGE = 1000


class Wanted(NamedTuple):
    """Which dead letters: all that fit whatever is given."""

    group: str | None = None
    id: str | None = None
    error: str | None = None
    """A pattern with `*` and `?` for "Type: message", or a type alone."""

    def fits_name(self, letter: str) -> bool:
        group, _, message_id = letter[STAMP_DIGITS:].partition("\n")
        return self.group in (None, group) and self.id in (None, message_id)

    def fits(self, dead: DeadLetter) -> bool:
        text = f"{dead.error.type}: {dead.error.message}"
        return self.error is None or self.error == dead.error.type or fnmatch.fnmatchcase(text, self.error)


class Letters:
    """The dead letters of some lanes, over one link."""

    def __init__(self, link: Link, lanes: list[LaneKeys], queue: str) -> None:
        self._link, self._lanes, self._queue = link, lanes, queue

    def names(self, keys: LaneKeys, wanted: Wanted) -> Iterator[tuple[str, float]]:
        """Name and time of death (us) of those in a lane that fit by name, the oldest death first; read in pages."""
        start = 0
        while True:
            words = self._link.command("ZRANGE", keys.dead, start, start + NAMES_PAGE - 1, "WITHSCORES")
            for word, at in zip(words[::2], words[1::2], strict=True):
                name = word.decode("utf-8", "surrogateescape")
                if wanted.fits_name(name):
                    yield name, float(at)
            start += NAMES_PAGE
            if len(words) < 2 * NAMES_PAGE:
                return

    def find(self, wanted: Wanted) -> Iterator[tuple[LaneKeys, DeadLetter]]:
        """Those that fit, lane by lane, the oldest death first."""
        for keys in self._lanes:
            names = list(self.names(keys, wanted))
            for first in range(0, len(names), PAGE):
                some = names[first : first + PAGE]
                kept = self._link.command("HMGET", keys.letters, *[name for name, _ in some])
                for (name, at), record in zip(some, kept, strict=True):
                    if record is not None:
                        dead = decode_letter(name, record, at, self._queue)
                        if wanted.fits(dead):
                            yield keys, dead

    def count(self, wanted: Wanted) -> int:
        """How many fit."""
        if wanted.error is None:
            return sum(1 for keys in self._lanes for _ in self.names(keys, wanted))
        return sum(1 for _ in self.find(wanted))

    def oldest(self, wanted: Wanted, limit: int) -> list[DeadLetter]:
        """Up to `limit` of those that fit, the oldest death first."""
        found = sorted((dead for _, dead in self.find(wanted)), key=lambda dead: dead.died_at)
        return found[:limit]

    def _by_lane(self, wanted: Wanted) -> dict[LaneKeys, list[str]]:
        """The names of those that fit, by score: within a group the first one goes back first."""
        found: dict[LaneKeys, list[tuple[float, str]]] = {}
        for keys, dead in self.find(wanted):
            found.setdefault(keys, []).append((dead.message.score, dead.letter))
        return {keys: [letter for _, letter in sorted(letters)] for keys, letters in found.items()}

    def redrive(self, wanted: Wanted, rate: float) -> Redriven:
        """Put those that fit back, at most `rate` a second."""
        size = max(1, min(PAGE, int(rate / 10)))
        done = pending = 0
        groups: dict[tuple[LaneKeys, str], None] = {}
        began, sent = time.monotonic(), 0
        for keys, letters in self._by_lane(wanted).items():
            for first in range(0, len(letters), size):
                ahead_s = began + sent / rate - time.monotonic()
                if ahead_s > 0:
                    time.sleep(ahead_s)
                some = letters[first : first + size]
                outcomes: list[Redriving] = self._link.run_one(redrive(keys, some))
                for letter, outcome in zip(some, outcomes, strict=True):
                    # After a repeated call, a letter that is gone went with the first try.
                    if outcome == "redriven" or (outcome == "missing" and self._link.is_repeat):
                        done += 1
                        groups[keys, letter[STAMP_DIGITS:].partition("\n")[0]] = None
                    pending += outcome == "pending"
                sent += len(some)
        return Redriven(done, pending, self._parked(list(groups))[:100])

    def _parked(self, groups: list[tuple[LaneKeys, str]]) -> list[tuple[str, ...]]:
        found = []
        for first in range(0, len(groups), NAMES_PAGE):
            some = groups[first : first + NAMES_PAGE]
            times = self._link.commands([("ZSCORE", keys.schedule, group) for keys, group in some])
            found += [decode_group(group) for (_, group), at in zip(some, times, strict=True) if at == b"inf"]
        return found

    def purge(self, wanted: Wanted) -> int:
        """Delete those that fit; how many there were."""
        count = 0
        for keys, letters in self._by_lane(wanted).items():
            for first in range(0, len(letters), PAGE):
                count += self._link.run_one(purge(keys, letters[first : first + PAGE]))
        return count


def check_pattern(error: Any) -> None:
    """A pattern for errors. Raises ConfigurationError."""
    if error is not None and not isinstance(error, str):
        raise ConfigurationError(f"error={shown(error)} must be text: a type of error, or a pattern with * and ?")


def check_rate(rate: Any) -> float:
    """Messages a second. Raises ConfigurationError."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1e6:
        raise ConfigurationError(f"rate={rate!r} must be a number of messages a second, above 0 and at most 1000000")
    return float(rate)
