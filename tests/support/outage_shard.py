"""A model of one shard and of how it is held back in an outage, for walks in virtual time. Times in us.

Written from the rules (the table in docs/failures.md), not from the scripts: a test on the real server
feeds both the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

SECOND = 1_000_000


@dataclass(slots=True)
class Group:
    """A group that has messages, and its head."""

    visible: float
    messages: int
    token: int = 0
    """Of its lease; 0: none."""
    is_alone: bool = False
    """Whether nothing else was claimed with it."""
    attempts: int = 0
    has_failed: bool = False
    outages: int = 0
    """In a row."""
    handled_then: int = 0
    """What the shard had handled at the first of those."""


@dataclass(frozen=True, slots=True)
class Claimed:
    groups: Sequence[str]
    token: int
    next_at: float | None
    """When to ask again; None where something was taken, or nothing is left."""
    is_probe: bool = False


@dataclass(frozen=True, slots=True)
class Nacked:
    is_outage: bool
    """Whether no attempt was counted."""
    is_held: bool
    """Whether the shard is held back."""


@dataclass(slots=True)
class Window:
    """Failures of an outage since the first of them."""

    began: int
    handled: int
    failures: int = 0
    groups: set[str] = field(default_factory=set)


class OutageShard:
    """The rules. A control takes one of them away."""

    groups_needed = 3
    failures_needed = 5
    window_us = 10 * SECOND
    looked_at = 100
    in_a_row = 10
    longest_us = 5 * SECOND

    def __init__(self) -> None:
        self.now = self.clock = self.handled = self.parked = 0
        self.groups: dict[str, Group] = {}
        self.window: Window | None = None
        self.probe_at: float | None = None
        """The next probe; None while the shard is not held back."""
        self.probe_from = 0
        """When the wait for it began."""
        self.opened = self.probe_token = self.probes = 0
        self.openings = 0

    def append(self, name: str, count: int = 1) -> None:
        if group := self.groups.get(name):
            group.messages += count
            if not group.token and not group.has_failed:  # a clock that was set back may have put it off
                group.visible = min(group.visible, self.now)
        else:
            self.groups[name] = Group(self.now, count)

    # -- what consumers ask ------------------------------------------------------------------------------------

    def due(self) -> list[str]:
        names = [name for name, group in self.groups.items() if group.visible <= self.now]
        return sorted(names, key=lambda name: (self.groups[name].visible, name))

    def claim(self, most: int, lease_us: int, *, ahead: bool = False) -> Claimed:
        is_held, due, probe_at = self.probe_at is not None, self.due(), self.probe_at
        if probe_at is not None and self.has_gone_back():
            probe_at = min(probe_at, self.now)
        if probe_at is not None and (ahead or self.now < probe_at):
            due = []
        if not due:
            first = min((group.visible for group in self.groups.values()), default=None)
            if first is None or math.isinf(first):
                return Claimed((), 0, None)
            return Claimed((), 0, max(first, probe_at or 0))
        if is_held:
            due, most = self.probe_order(due[: self.looked_at]), 1
        token, taken = max(self.clock + 1, self.now), list[str]()
        for name in due:
            group = self.groups[name]
            if group.token and (ahead or taken):
                break
            if group.token:
                group.attempts += group.is_alone
            taken.append(name)
            if len(taken) == most or group.token:
                break
        for name in taken:
            group = self.groups[name]
            group.token, group.visible, group.is_alone = token, self.now + lease_us, len(taken) == 1 and not ahead
        if taken:
            self.clock = token
            if is_held:
                self.begin_probe(token, lease_us)
        return Claimed(taken, token, None, is_held and bool(taken))

    def has_gone_back(self) -> bool:
        """Whether the clock was set back since: the next probe would be further ahead than it should wait."""
        return self.now < self.probe_from

    def probe_order(self, due: list[str]) -> list[str]:
        """Those without a failure first, else the longest due."""
        return sorted(due, key=lambda name: self.groups[name].has_failed)

    def begin_probe(self, token: int, lease_us: int) -> None:
        self.probe_token, self.probe_at, self.probe_from = token, self.now + lease_us, self.now

    def ack(self, name: str, token: int, count: int = 1, *, release: bool) -> bool:
        group = self.groups.get(name)
        if group is None or not token or group.token != token:
            return False
        count = min(count, group.messages)
        self.handled += count
        if count:
            group.messages -= count
            group.attempts, group.has_failed, group.outages = 0, False, 0
        if not group.messages:
            del self.groups[name]
        elif release:
            group.token, group.visible = 0, self.now
        return True

    def nack(
        self,
        name: str,
        token: int,
        verdict: str,
        *,
        delay_us: int | None,
        waits: tuple[int, int, int | None] = (0, 0, None),
        attempts: int = 1,
    ) -> Nacked | None:
        """`delay_us` None: it parks, if it counts. None for a token that is not valid."""
        group = self.groups.get(name)
        if group is None or not token or group.token != token:
            return None
        is_outage, visible = False, math.inf if delay_us is None else self.now + delay_us
        if verdict == "outage":
            if not (group.has_failed and group.outages):
                group.outages, group.handled_then = 0, self.handled
            group.outages += 1
            if self.probe_at is None and self.opens(name):
                self.open()
            is_private = group.outages >= self.in_a_row and self.handled > group.handled_then
            is_outage = self.probe_at is not None or not is_private
        else:
            group.outages = 0
        if is_outage:
            visible = self.now + min(waits[0] * 2 ** (group.outages - 1), waits[1])
        else:
            group.attempts = attempts
        if self.probe_at is not None and token == self.probe_token:
            self.probe_token, self.probe_from = 0, self.now
            if not verdict:
                self.probe_at = self.now
            else:
                self.probes += 1
                usual = min(self.longest_us, SECOND * 2 ** (self.probes - 1))
                self.probe_at = self.now + (usual if waits[2] is None else waits[2])
                if is_outage:
                    visible = self.place_behind(group)
        group.has_failed, group.token, group.visible = True, 0, visible
        self.parked += math.isinf(visible)
        return Nacked(is_outage, self.probe_at is not None)

    def place_behind(self, group: Group) -> float:
        """Of a group whose probe failed: behind all that are due."""
        return self.now

    def opens(self, name: str) -> bool:
        """Note a failure; whether there are enough of them now."""
        window = self.window
        if window is None or not 0 <= self.now - window.began <= self.window_us:
            window = self.window = Window(self.now, self.handled)
        window.failures += 1
        window.groups.add(name)
        is_many = window.failures >= self.failures_needed and len(window.groups) >= self.groups_needed
        return is_many and window.failures > self.handled - window.handled

    def open(self) -> None:
        self.opened = self.probe_from = self.now
        self.probe_at = self.now + SECOND
        self.probes = self.probe_token = 0
        self.openings += 1

    def close(self, token: int) -> bool:
        """What was claimed in this outage could be handled, or failed otherwise."""
        if self.probe_at is None or token < self.opened:
            return False
        self.probe_at = self.window = None
        self.probe_token = 0
        return True

    def probe_now(self, token: int | None = None) -> bool:
        """A person says so, or a consumer that gives its probe back."""
        if self.probe_at is None or token not in (None, self.probe_token):
            return False
        self.probe_at, self.probe_from, self.probe_token = self.now, self.now, 0
        return True


class OneGroupIsEnough(OutageShard):
    """A control: no rule of three groups."""

    groups_needed = 1


class ProbeKeepsItsPlace(OutageShard):
    """A control: the group whose probe failed is the next one to be probed."""

    def probe_order(self, due: list[str]) -> list[str]:
        return due

    def place_behind(self, group: Group) -> float:
        return 0.0


class WaitsForItsProbe(OutageShard):
    """A control: while a probe is on its way nobody else probes, however long; its consumer may be dead."""

    def begin_probe(self, token: int, lease_us: int) -> None:
        self.probe_token, self.probe_at = token, math.inf


class TrustsTheClock(OutageShard):
    """A control: a clock that was set back holds the shard for so long."""

    def has_gone_back(self) -> bool:
        return False
