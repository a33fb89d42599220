"""What becomes of messages, noted beside the queue by who appends, handles and operates them; and whether `get`, `find`
and `history` say the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sequencer import MessageInfo, Sequencer

Name = tuple[str, str]
"""Group and id."""


@dataclass
class Ended:
    """How one ended, by the clock of who noted it."""

    outcome: str
    attempts: int
    appended_at: float
    began_at: float | None
    finished_at: float


@dataclass
class Recorder:
    """What is so by now."""

    exact_s: float = 0.010
    waiting: dict[Name, float] = field(default_factory=dict)
    """Pending -> when it was appended."""
    attempts: dict[Name, int] = field(default_factory=dict)
    dead: dict[Name, float] = field(default_factory=dict)
    """Dead letters -> when they had been appended."""
    dead_attempts: dict[Name, int] = field(default_factory=dict)
    ended: dict[Name, Ended] = field(default_factory=dict)

    def appended(self, name: Name, at: float) -> None:
        self.waiting[name], self.attempts[name] = at, 0

    def end(self, name: Name, outcome: str, finished_at: float, began_at: float | None = None) -> None:
        appended_at = self.waiting.pop(name)
        self.ended[name] = Ended(outcome, self.attempts.pop(name, 0), appended_at, began_at, finished_at)

    def bury(self, name: Name) -> None:
        self.dead[name], self.dead_attempts[name] = self.waiting.pop(name), self.attempts.pop(name, 0)

    def purge(self, finished_at: float) -> None:
        for name, appended_at in self.dead.items():
            self.ended[name] = Ended("purged", self.dead_attempts[name], appended_at, None, finished_at)
        self.dead.clear()

    # -- what the queue says ------------------------------------------------------------------------------------

    def compare(self, seq: Sequencer, names: Iterable[Name]) -> None:
        """Raises AssertionError where an answer is another than what was noted."""
        for name in names:
            self._compare_one(name, seq.get(*name))
        for id in {id for _, id in names}:
            found = seq.find(id)
            assert [info.id for info in found] == [id] * len(found)
            known = {*self.waiting, *self.dead, *self.ended}
            assert [info.group[0] for info in found] == sorted(group for group, one in known if one == id)
            for info in found:
                self._compare_one((info.group[0], id), info)
        told = list(seq.history())
        times = [info.finished_at or 0.0 for info in told]
        assert times == sorted(times, reverse=True), "the newest first"
        assert {(info.group[0], info.id) for info in told} == {*self.ended}
        assert len(told) == len(self.ended)
        for info in told:
            self._compare_ended(info, self.ended[info.group[0], info.id])

    def _compare_one(self, name: Name, info: MessageInfo | None) -> None:
        if name in self.waiting:
            assert info is not None, name
            assert info.status in ("pending", "running") or info.state == "parked", info
            assert (info.finished_at, info.consumer) == (None, "")
            self._same_time(info.appended_at, self.waiting[name])
            assert info.attempts == self.attempts[name]
        elif name in self.dead:
            assert info is not None
            assert (info.state, info.status) == ("dead", "error")
            self._same_time(info.appended_at, self.dead[name])
        elif name in self.ended:
            assert info is not None
            self._compare_ended(info, self.ended[name])
        else:
            assert info is None, info

    def _compare_ended(self, info: MessageInfo, wanted: Ended) -> None:
        phase = "error" if wanted.outcome in ("skipped", "dropped", "purged") else "finished"
        assert (info.state, info.status, info.attempts) == (wanted.outcome, phase, wanted.attempts), (info, wanted)
        assert (info.message, info.due_in_s) == (None, None)
        for told, noted in (
            (info.appended_at, wanted.appended_at),
            (info.began_at, wanted.began_at),
            (info.finished_at, wanted.finished_at),
        ):
            self._same_time(told, noted)

    def _same_time(self, told: float | None, noted: float | None) -> None:
        if told is None or noted is None:
            assert told is noted
        else:
            assert abs(told - noted) <= self.exact_s, f"{told - noted:+.6f} s off"


def names_of(groups: str, ids: str) -> list[Name]:
    return [(group, id) for group in groups for id in ids]


def handled_by(recorder: Recorder, clock: Any, message: Any) -> tuple[Name, float]:
    """A handler begins with this: its message is tried once more."""
    name = (message.group[0], message.id)
    recorder.attempts[name] = message.attempt
    return name, clock()
