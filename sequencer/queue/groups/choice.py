"""Which parked groups are meant: all, or those whose failure fits; read before anything is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ... import calls
from ...calls.net_protocol import Net
from ...errors import ConfigurationError
from ...store.failure import ASKING, decode_failure, digest_of
from ...store.keys import ShardKeys
from ...store.replies import Reading, text
from ...values.checks import check_error, fits_error, seconds_of
from ...values.durations import Duration
from ...values.message import Failure
from ..session import Session
from ..views import now_of
from .parked import parked_names

FAILURES_PAGE = 100
"""Failures read by one command: with their tracebacks they are a few KB each."""


class FailureFilter(NamedTuple):
    """Which parked groups: those whose failure fits all that is given."""

    error: str | None = None
    """A pattern with `*` and `?` for "Type: message", or a type alone."""
    since_s: float | None = None
    """Only what failed within so many seconds."""

    @classmethod
    def chosen(cls, error: str | None, since: Duration | None, everything: bool, action: str) -> FailureFilter:
        """From what a caller gives; to take all has to be said. Raises ConfigurationError."""
        if everything == (error is not None or since is not None):
            raise ConfigurationError("nothing_chosen", action=action, by="error or since")
        check_error(error)
        return cls(error, None if since is None else seconds_of("since", since))

    @property
    def is_all(self) -> bool:
        return self == (None, None)

    def fits(self, failure: Failure, now_s: float) -> bool:
        is_recent = self.since_s is None or failure.at >= now_s - self.since_s
        return is_recent and fits_error(self.error, failure)


class Chosen(NamedTuple):
    """What was found, shard by shard."""

    by_shard: list[tuple[ShardKeys, list[calls.ParkedGroup]]]
    waiting: int
    """Parked groups without a failure: they wait for a missing number. Only counted where all are meant."""
    others: Counter[str]
    """Those that did not fit, by type of error."""

    @property
    def total(self) -> int:
        return sum(len(groups) for _, groups in self.by_shard)

    def questions(self) -> Chosen:
        """Only those that wait for an answer of a person."""
        return self._only(lambda group: group.error in ASKING)

    def without_unresolved(self) -> Chosen:
        return self._only(lambda group: group.error not in ASKING)

    def _only(self, fits: Callable[[calls.ParkedGroup], bool]) -> Chosen:
        return self._replace(by_shard=[(keys, [one for one in some if fits(one)]) for keys, some in self.by_shard])

    @property
    def errors(self) -> dict[str, int]:
        """How many by type of error, the most frequent first."""
        return most_first(Counter(group.error for _, groups in self.by_shard for group in groups))


def most_first(counts: Counter[str]) -> dict[str, int]:
    """The most frequent first."""
    return dict(counts.most_common())


async def choose(session: Session, wanted: FailureFilter) -> Chosen:
    """The parked groups that fit, each as it is now."""
    by_shard, waiting, others = [], 0, Counter[str]()
    for keys in await session.shards():
        now_s = await now_of(session.net, keys) / 1e6
        found: list[calls.ParkedGroup] = []
        async for names in parked_names(session.net, keys):
            failures = await _failures_of(session.net, keys, names)
            with Reading(session.net.name):
                found += _fitting(zip(names, failures, strict=True), wanted, now_s, others)
            waiting += failures.count(None) if wanted.is_all else 0
        by_shard.append((keys, found))
    return Chosen(by_shard, waiting, others)


async def _failures_of(net: Net, keys: ShardKeys, names: Sequence[bytes]) -> list[bytes | None]:
    some = [names[first : first + FAILURES_PAGE] for first in range(0, len(names), FAILURES_PAGE)]
    replies = await net.read(keys.failures, [("HMGET", keys.failures, *page) for page in some])
    with Reading(net.name):
        return [record for reply in replies for record in reply]


def _fitting(
    found: Iterable[tuple[bytes, bytes | None]], wanted: FailureFilter, now_s: float, others: Counter[str]
) -> list[calls.ParkedGroup]:
    groups = []
    for name, record in found:
        if record is None:
            continue
        failure, member = decode_failure(record)
        if wanted.fits(failure, now_s):
            groups.append(calls.ParkedGroup(text(name), digest_of(record), member, failure.type))
        else:
            others[failure.type] += 1
    return groups
