"""The handler of scenario `growth`: it judges what is handled on the way, so that no history grows with it."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sequencer.values.message import Message

MARKS = ("start", "middle", "end")


class Stream:
    """Judges what is handled on the way: a handler whose memory depends on the number of groups alone.

    The messages of each group are numbered from 1, in the order in which they are appended.
    """

    def __init__(self, messages: int, rss_kib: Callable[[], int]) -> None:
        self.handled = 0
        self.began = self.ended = 0.0
        self.rss_kib: dict[str, int] = {}
        self._marks = dict(zip((1, max(2, messages // 2), messages), MARKS, strict=True))
        self._read_rss = rss_kib
        self._last: dict[str, int] = {}
        self._again = self._skips = 0
        self._case = ""

    def __call__(self, message: Message) -> None:
        self.see(message.group[0], message.body["number"])

    def see(self, group: str, number: int) -> None:
        """The handler of this message began, and ends here."""
        self.began = self.began or time.monotonic()
        last = self._last.get(group, 0)
        if number != last + 1:
            self._again += number <= last
            self._skips += number > last
            self._case = self._case or f"group {group}: {number} after {last}"
        self._last[group] = max(number, last)
        self.handled += 1
        if mark := self._marks.get(self.handled):
            self.ended = time.monotonic()
            self.rss_kib[mark] = self._read_rss()

    def fault(self, groups: int, each: int) -> str:
        """What is wrong now that all should be handled, "" for nothing."""
        wanted = {f"g{group}" for group in range(groups)}
        short = sum(self._last.get(group, 0) != each for group in wanted)
        found = {
            "messages handled again, or after a later one": self._again,
            "handled before the one before them": self._skips,
            "groups not handled to their end": short,
            "groups that were never appended": len(self._last.keys() - wanted),
        }
        said = [f"{count} {what}" for what, count in found.items() if count]
        return "; ".join([*said, *([f"for example {self._case}"] if self._case else [])])


def resident_kib() -> int:
    """Memory of this process: now, where the system tells, else the most it ever was."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // 1024 if sys.platform == "darwin" else peak
