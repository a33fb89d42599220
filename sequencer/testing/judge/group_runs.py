"""The handler runs of one group in a history: whether one message was passed by another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from .history import Event


@dataclass(slots=True)
class GroupRuns:
    """What a judge knows of one group."""

    tops: list[tuple[int, tuple[float, int], str]] = field(default_factory=list)
    """Token, place and id of runs that began, by token upwards and by place downwards: no later one passed them."""
    open: dict[str, Event] = field(default_factory=dict)
    """Process -> the run that it began and did not end."""
    newest: Event | None = None
    """The run with the greatest token that began."""

    def add_top(self, run: Event) -> None:
        place = (run.score, run.stamp)
        at = bisect_left(self.tops, run.token, key=lambda top: top[0])
        if at < len(self.tops) and self.tops[at][1] >= place:
            return  # under this token or a newer one, something at least as far behind began
        end = at + (at < len(self.tops) and self.tops[at][0] == run.token)
        while at and self.tops[at - 1][1] <= place:
            at -= 1
        self.tops[at:end] = [(run.token, place, run.id)]

    def passed_by(self, run: Event, since: int | None = None) -> str | None:
        """The id of a message behind this one that began before it ended, though this one was there: under a lease
        newer than the token `since`, else than the arrival of this one.
        """
        first = bisect_right(self.tops, run.stamp if since is None else since, key=lambda top: top[0])
        if first < len(self.tops) and self.tops[first][1] > (run.score, run.stamp):
            return self.tops[first][2]
        return None
