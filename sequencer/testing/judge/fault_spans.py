"""When which process was touched by a fault, by the history."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from .history import Event


class FaultSpans:
    """The faults of a history by process; "" stands for all."""

    def __init__(self, events: Iterable[Event]) -> None:
        spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for event in events:
            if event.what == "fault":
                spans[event.who].append((event.at, max(event.at, event.until)))
        self._spans: dict[str, tuple[list[float], list[float]]] = {}
        for who, some in spans.items():
            some.sort()
            ends: list[float] = []
            for _, end in some:
                ends.append(max(end, ends[-1]) if ends else end)
            self._spans[who] = [start for start, _ in some], ends

    def touches(self, who: str, began: float, ended: float) -> bool:
        """Whether a fault touched this process, or all, between these times."""
        for name in (who, ""):
            starts, ends = self._spans.get(name, ([], []))
            before = bisect_right(starts, ended)
            if before and ends[before - 1] >= began:
                return True
        return False
