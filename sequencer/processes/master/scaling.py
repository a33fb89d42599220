"""How many consumers a pool should have, from snapshots of its queue. Pure, but for HostCpu: a snapshot has its time.

Up when due groups wait for a consumer, never for messages: one group is handled by one consumer at a time, however
many messages it has. Down slowly, and gently: who leaves finishes its message. Most of the time nothing changes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")
SNAPSHOTS = 2
"""A wait that only one snapshot shows is over before a new process would have helped."""
REST_S = 10.0
"""After a change, and after the start of a pool: a new process is at work then, and shows in the next snapshots."""
QUIET_S = 300.0
"""No wait for this time, before one consumer may leave. With 60 s, consumers come and go all day: see tests."""
CALM = 0.5
"""The part of the wait above which a pool counts as not quiet."""
FULL = 0.7
"""Those that stay may be busy for this share of their time."""
BUSY_CPU = 0.9
"""Above this share of the host's processors, one process more makes all of them slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSnapshot:
    """A pool at one moment."""

    now: float
    due: int
    waits_s: float
    processes: int
    starting: int = 0
    """Those of them that are not connected yet."""
    leaving: int = 0
    """Those of them that were asked to leave."""
    busy: float = 0.0
    """How many consumers' time was spent in handlers since the snapshot before: 1.5 of 2 are busy for 75 %."""
    is_frozen: bool = False
    """Whether what is seen says nothing of the load: paused, an outage, consumers that die."""
    cpu: float = 0.0
    room: int = 1_000_000
    """Processes that it may have above `least`, beside all pools of this host; below 0: there are too many."""


class Scaler:
    """Of one pool, with `least` to `most` consumers."""

    def __init__(self, least: int, most: int, wait_s: float) -> None:
        self.least, self.most, self.wait_s = least, most, wait_s
        self._snapshots_waiting = self._starting = 0
        self._began: float | None = None
        self._rests_until = self._quiet_since = self._idle_since = self._noticed_at = 0.0
        self._busy = 0.0
        """The mean over the quiet time so far."""

    def decide(self, snapshot: PoolSnapshot) -> int:
        """How many consumers to start, or -1: one is to leave; mostly 0."""
        now, staying = snapshot.now, snapshot.processes - snapshot.leaving
        if self._began is None:
            self._began = now
            self._rests_until = now + REST_S
            self._be_loud(now)
        self._notice(snapshot)
        if staying < self.least:
            return self.least - staying
        if not snapshot.processes:  # nothing to be measured; also in an outage, whose probes need a consumer
            return self._up(snapshot, 1) if snapshot.due and self.most else 0
        if snapshot.is_frozen or now < self._rests_until:
            return 0
        if staying > self.most or (snapshot.room < 0 and staying > max(1, self.least)):
            return self._down(now)
        if self._snapshots_waiting >= SNAPSHOTS and snapshot.cpu <= BUSY_CPU:
            return self._up(snapshot, min(max(1, staying // 2), snapshot.room))
        if staying > self.least and now - self._quiet_since >= QUIET_S and self._can_spare(staying, now):
            return self._down(now)
        return 0

    def _notice(self, snapshot: PoolSnapshot) -> None:
        now = snapshot.now
        has_help = snapshot.starting < self._starting  # what waits now waited for those that just came
        is_waiting = snapshot.due and snapshot.waits_s >= self.wait_s and not has_help
        self._snapshots_waiting = self._snapshots_waiting + 1 if is_waiting else 0
        self._starting = snapshot.starting
        if snapshot.is_frozen or (snapshot.due and snapshot.waits_s >= CALM * self.wait_s):
            self._be_loud(now)
        else:
            span = now - self._quiet_since
            part = min(1.0, (now - self._noticed_at) / span) if span else 1.0
            self._busy += (snapshot.busy - self._busy) * part
        if snapshot.busy or snapshot.due:
            self._idle_since = now
        self._noticed_at = now

    def _be_loud(self, now: float) -> None:
        self._quiet_since = self._noticed_at = now
        self._busy = 0.0

    def _can_spare(self, staying: int, now: float) -> bool:
        if staying == 1:
            return now - self._idle_since >= QUIET_S
        return self._busy < FULL * (staying - 1)

    def _up(self, snapshot: PoolSnapshot, step: int) -> int:
        more = min(step, snapshot.due - snapshot.starting, self.most - snapshot.processes)
        if more <= 0:
            return 0
        self._rests_until = snapshot.now + REST_S
        self._be_loud(snapshot.now)
        return more

    def _down(self, now: float) -> int:
        self._rests_until = now + REST_S
        return -1


class Load:
    """How busy the consumers of a pool are, by what they report each second."""

    SMOOTH_S = 5.0

    def __init__(self) -> None:
        self.busy_now = self.busy = self.rate = 0.0
        """How many consumers' time was spent in handlers between the last two measurements, which jumps but has the
        right mean; the same smoothed, and messages a second, for people.
        """
        self._handlers_s: dict[int, float] = {}
        self._handled, self._at = 0, -1.0

    def measure(self, handlers_s: dict[int, float], handled: int, now: float) -> None:
        """`handlers_s`: by process, its time in handlers so far; `handled`: messages so far."""
        before, self._handlers_s = self._handlers_s, handlers_s
        span, count = now - self._at, handled - self._handled
        is_first, self._at, self._handled = self._at < 0, now, handled
        if is_first or span <= 0:
            return
        self.busy_now = sum(max(0.0, spent_s - before.get(pid, 0.0)) for pid, spent_s in handlers_s.items()) / span
        part = min(1.0, span / self.SMOOTH_S)
        self.busy += (self.busy_now - self.busy) * part
        self.rate += (count / span - self.rate) * part


class HostCpu:
    """The share of this host's processors that was in use since the last question."""

    def __init__(self) -> None:
        self._last = self._read()

    def share(self) -> float:
        (idle_before, before), self._last = self._last, self._read()
        idle, ticks = self._last
        return 1.0 - (idle - idle_before) / (ticks - before) if ticks > before else 0.0

    @staticmethod
    def _read() -> tuple[int, int]:
        """Ticks without work, and all; 0 where the system does not tell."""
        with suppress(OSError, ValueError, IndexError):
            ticks = [int(word) for word in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
            return ticks[3] + ticks[4], sum(ticks)
        return 0, 0
