"""A clock that only a test moves, for the looks of links."""

from __future__ import annotations

import pytest

import sequencer.net.link
import sequencer.net.repeats


class LinkClock:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> LinkClock:
    """From now on links look by this clock."""
    found = LinkClock()
    for module in (sequencer.net.link, sequencer.net.repeats):
        monkeypatch.setattr(module, "time", found)
    return found
