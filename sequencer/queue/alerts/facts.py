"""What is asked for alerts beside `snapshot`: what costs more, and whether it is worth it. Operations over a net."""

from __future__ import annotations

from collections import deque

from ...doctor.server import parse_info
from ...errors import ServerError
from ...settings.thresholds import FAILING_S, LEAST_ATTEMPTS
from .. import counts
from ..pages import read
from ..session import Session
from .conditions import QueueFacts

SAMPLE = 1000
"""Groups from which backlog and lag are reckoned, where a shard has more."""
FAILED = ("failed", "parked", "dead", "dropped")
"""Counts of attempts that failed."""


class Attempts:
    """How many attempts of the last five minutes failed, from a queue's totals, minute by minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()
        self._since = 0.0

    def note(self, now: float, totals: dict[str, int]) -> tuple[int, int] | None:
        """Those that failed, and all, since the oldest check of these five minutes; `now` of a clock that goes on.

        None: not known yet, since the first check is less than five minutes ago, and there were few attempts.
        """
        failed = sum(totals[name] for name in FAILED)
        attempts = failed + totals["handled"]
        if self._seen and (failed < self._seen[-1][1] or attempts < self._seen[-1][2]):
            self._seen.clear()  # the server lost its counts
        if not self._seen:
            self._since = now
        self._seen.append((now, failed, attempts))
        while self._seen[0][0] < now - FAILING_S - 1.0:
            self._seen.popleft()
        _, failed_then, attempts_then = self._seen[0]
        is_known = now - self._since >= FAILING_S or attempts - attempts_then >= LEAST_ATTEMPTS
        return (failed - failed_then, attempts - attempts_then) if is_known else None


async def counted(session: Session, attempts: Attempts, now: float, *, has_memory: bool) -> QueueFacts:
    """What is counted each minute, from a sample of the groups. Raises ServerError."""
    info = await counts.info(session, sample=SAMPLE)
    policy = await session.fresh_policy() if info.history else None
    memory = await _memory(session) if has_memory else None
    tried = None if info.unreachable else attempts.note(now, info.totals)  # else they would be new when they are back
    return QueueFacts(info=info, policy=policy, memory=memory, tried=tried)


async def _memory(session: Session) -> float | None:
    """The part of the server's maxmemory in use, of a cluster that of the fullest node; None where it has none, or does
    not tell.
    """

    def share(said: bytes) -> float | None:
        info = parse_info(said.decode("utf-8", "replace"))
        most = int(info.get("maxmemory", "0"))
        return int(info["used_memory"]) / most if most else None

    try:
        async with session.net.alone() as alone:
            shares = [await read(node, share, ("INFO", "memory")) for node in await alone.nodes()]
    except ServerError:
        return None
    return max((one for one in shares if one is not None), default=None)
