"""One queue as the watcher sees it: what is looked at each time and each minute, and what was told of it."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from ...client import Sequencer
from ...doctor.server import parse_info
from ...errors import ServerError
from ...net.blocking import blocking
from ...queue import counts, views
from ...queue.alarms import incidents, untold
from ...queue.alarms.conditions import Facts
from ...queue.session import Session
from ...settings.thresholds import FAILING_S
from ...store.replies import Reading
from ...values.unserved import Unserved
from ...values.views import QueueInfo, QueueLook

SAMPLE = 1000
"""Groups from which backlog and lag are reckoned, where a lane has more."""
FAILED = ("failed", "parked", "dead", "dropped")
"""Counts of tries that failed."""


async def sample(session: Session) -> QueueInfo:
    """As `info`, from a sample of the groups."""
    return await counts.info_of(session, SAMPLE)


async def unserved(session: Session) -> Unserved | None:
    """Whether groups are due and nobody consumes."""
    return await views.unserved(session, await session.lanes(register=False))


async def memory_share(session: Session) -> float | None:
    """The part of the server's maxmemory in use; None where it has none, or does not tell."""
    try:
        (said,) = await session.net.read((await session.lanes(register=False))[0].policy, [("INFO", "memory")])
    except ServerError:
        return None
    with Reading(session.net.name):
        info = parse_info(said.decode("utf-8", "replace"))
        most = int(info.get("maxmemory", "0"))
        return int(info["used_memory"]) / most if most else None


class WatchedQueue(Sequencer):
    """The client of one queue, with what a watcher asks."""

    take_seen = blocking(incidents.take_seen)
    sent = blocking(incidents.sent)
    news_of = blocking(untold.news_of)
    keep_told = blocking(untold.keep_told)
    forget_told = blocking(untold.forget_told)
    sample = blocking(sample)
    unserved = blocking(unserved)
    memory_share = blocking(memory_share)


class _Tried(NamedTuple):
    at: float
    failed: int
    tries: int


class FactsReader:
    """What is known of a queue: looks each time, and once a minute what costs more."""

    def __init__(self, client: WatchedQueue, *, has_memory: bool) -> None:
        self._client, self._has_memory = client, has_memory
        self._tried: deque[_Tried] = deque()
        self._minute: dict[str, Any] = {}

    def read(self, look: QueueLook, unserved_from: float) -> Facts:
        """After a look. Raises ServerError."""
        seen = self._client.unserved() if look.due and look.waits_s >= unserved_from > 0 else None
        facts = Facts(look=look, unserved_s=seen.waits_s if seen else 0.0, **self._minute)
        self._minute = {}
        return facts

    def read_minute(self, now: float) -> None:
        """What a look does not tell, for the next `read`. Raises ServerError."""
        info = self._client.sample()
        self._note_tries(now, info.totals)
        self._minute = {
            "info": info,
            "tried": self._share(),
            "policy": self._client.policy if info.history else None,
            "memory": self._client.memory_share() if self._has_memory else None,
        }

    def _note_tries(self, now: float, totals: dict[str, int]) -> None:
        failed = sum(totals[name] for name in FAILED)
        one = _Tried(now, failed, failed + totals["handled"])
        if self._tried and (one.failed < self._tried[-1].failed or one.tries < self._tried[-1].tries):
            self._tried.clear()  # the server lost its counts
        self._tried.append(one)
        while self._tried[0].at < now - FAILING_S - 1.0:
            self._tried.popleft()

    def _share(self) -> tuple[int, int]:
        first, last = self._tried[0], self._tried[-1]
        return last.failed - first.failed, last.tries - first.tries
