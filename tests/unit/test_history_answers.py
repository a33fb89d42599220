"""get, find and history say what became of each message: the same as a recorder noted, whatever was done, in virtual
time; and what their controls say is found wrong.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer import Message, errors
from sequencer.drain.held_group import History
from sequencer.testing.memory_queue import MemoryQueue

from ..support.history_recorder import Recorder, handled_by, names_of

GROUPS, IDS = "ab", "xyz"
OPERATIONS = (
    *("append", "append", "append", "replace", "cancel", "drain", "drain", "skip", "bury", "resume", "redrive"),
    *("purge", "later", "unskip", "skip all"),
)
MOODS = {"good": 0.25, "quick": 0.005, "slow": 2.5, "fails once": 0.25, "fails": 0.25}
"""How a handler behaves, and how many seconds it takes."""


class Walk:
    """A queue, what is done to it, and who notes that."""

    def __init__(self, on_failure: Any, dedup_window: float) -> None:
        self.queue = MemoryQueue(
            "q", history_window=7200, max_attempts=2, on_failure=on_failure, dedup_window=dedup_window, backoff=0.1
        )
        self.on_failure, self.recorder = on_failure, Recorder(exact_s=0.0021)
        self.skipped: tuple[tuple[str, str], float] | None = None

    def do(self, name: str, group: str, id: str, mood: str) -> None:
        with suppress(errors.MessageNotFound, errors.GroupNotFound, errors.NotParked, errors.IdConflict):
            getattr(self, f"_{name.replace(' ', '_')}")(group, id, mood)
        self.recorder.compare(self.queue, names_of(GROUPS, IDS))

    def _append(self, group: str, id: str, mood: str) -> None:
        if not self.queue.append({"mood": mood}, group=group, id=id).duplicate:
            self.recorder.appended((group, id), self.queue.now)

    def _replace(self, group: str, id: str, mood: str) -> None:
        if not self.queue.append({"mood": mood}, group=group, id=id, replace=True).duplicate:
            if (group, id) in self.recorder.waiting:
                self.recorder.end((group, id), "replaced", self.queue.now)
            self.recorder.appended((group, id), self.queue.now)

    def _cancel(self, group: str, id: str, mood: str) -> None:
        self.queue.cancel(group, id)
        self.recorder.end((group, id), "cancelled", self.queue.now)

    def _drain(self, group: str, id: str, mood: str) -> None:
        self.queue.drain(self.handle)

    def handle(self, message: Message) -> None:
        name, began = handled_by(self.recorder, lambda: self.queue.now, message)
        mood = message.body["mood"]
        self.queue.advance(MOODS[mood])
        if mood == "fails" or (mood == "fails once" and message.attempt == 1):
            if message.attempt == 2 and self.on_failure == "dead_letter":
                self.recorder.bury(name)
            elif message.attempt == 2 and self.on_failure == "drop":
                self.recorder.end(name, "dropped", self.queue.now, began)
            raise ValueError(mood)
        self.recorder.end(name, "finished", self.queue.now, began)

    def _skip(self, group: str, id: str, mood: str) -> None:
        name = (group, self.queue.skip(group).id)  # type: ignore[union-attr]  # no sequence
        self.skipped = name, self.recorder.waiting[name]
        self.recorder.end(name, "skipped", self.queue.now)

    def _skip_all(self, group: str, id: str, mood: str) -> None:
        parked = {(one.group[0], one.head_id or "") for one in self.queue.parked()}
        assert self.queue.skip_many(everything=True, discard=True).done == len(parked)
        for name in parked:
            self.recorder.end(name, "skipped", self.queue.now)

    def _unskip(self, group: str, id: str, mood: str) -> None:
        message = self.queue.unskip(group)
        assert self.skipped is not None
        name, appended_at = self.skipped
        assert name == (group, message.id)
        self.recorder.appended(name, appended_at)

    def _bury(self, group: str, id: str, mood: str) -> None:
        self.recorder.bury((group, self.queue.skip(group, dead_letter=True).id))  # type: ignore[union-attr]

    def _resume(self, group: str, id: str, mood: str) -> None:
        self.queue.resume(group)
        for name in self.recorder.waiting:
            if name[0] == group:
                self.recorder.attempts[name] = 0

    def _redrive(self, group: str, id: str, mood: str) -> None:
        stays = {(one.message.group[0], one.message.id) for one in self.queue.dead()}
        self.queue.redrive(everything=True)
        stays &= {(one.message.group[0], one.message.id) for one in self.queue.dead()}
        for name in [*self.recorder.dead]:
            if name not in stays:
                self.recorder.appended(name, self.recorder.dead.pop(name))

    def _purge(self, group: str, id: str, mood: str) -> None:
        self.queue.purge(everything=True)
        self.recorder.purge(self.queue.now)

    def _later(self, group: str, id: str, mood: str) -> None:
        self.queue.advance(40)


STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(GROUPS), st.sampled_from(IDS), st.sampled_from([*MOODS])),
    min_size=5,
    max_size=25,
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "sequencer")


@pytest.mark.slow
@pytest.mark.parametrize("on_failure", ["park", "drop", "dead_letter"])
@settings(max_examples=12, deadline=None)
@given(steps=STEPS, dedup_window=st.sampled_from([0.0, 60.0]))
def test_every_answer_is_what_a_recorder_noted(on_failure: str, dedup_window: float, steps: Any) -> None:
    walk = Walk(on_failure, dedup_window)
    for step in steps:
        walk.do(*step)


PLAIN_WALK = [
    *[("append", "a", id, "quick") for id in IDS],
    ("append", "b", "x", "fails"),
    ("drain", "a", "x", ""),
    ("skip", "b", "x", ""),
    ("append", "b", "y", "good"),
    ("cancel", "b", "y", ""),
    ("append", "b", "z", "good"),
    ("replace", "b", "z", "good"),
]


def walk_plainly() -> Walk:
    walk = Walk("park", 60.0)
    for step in PLAIN_WALK:
        walk.do(*step)
    return walk


def test_a_plain_walk_is_noted() -> None:
    walk = walk_plainly()
    outcomes = {name: one.outcome for name, one in walk.recorder.ended.items()}
    assert outcomes == {
        ("a", "x"): "finished",
        ("a", "y"): "finished",
        ("a", "z"): "finished",
        ("b", "x"): "skipped",
        ("b", "y"): "cancelled",
        ("b", "z"): "replaced",
    }
    queue = walk.queue
    assert [info.id for info in queue.history("a")] == ["z", "y", "x"]
    assert [info.id for info in queue.history(outcome="skipped")] == ["x"]
    assert [info.note for info in queue.history("b", outcome="skipped")] == ["ValueError: fails"]
    assert len(list(queue.history(limit=2))) == 2
    ended = [info.finished_at or 0.0 for info in queue.history()]
    newest, oldest = ended[0], ended[-1]
    ago = queue.now - (newest + oldest) / 2 - 0.01
    assert [*queue.history(since=ago), *queue.history(until=ago)] == [*queue.history()]
    assert list(queue.history(kind="other")) == []


@pytest.mark.parametrize("outcome", ["purged", "swept"])
def test_a_dead_letter_that_is_deleted_stays_in_the_history_with_its_error(outcome: Any) -> None:
    queue = MemoryQueue("q", history_window=86_400, dead_window=60, on_failure="dead_letter", max_attempts=2)
    queue.append({}, group="g", id="a")
    queue.drain(lambda message: int("x"))
    queue.advance(3700)  # a bucket of the history is over
    assert (queue.purge(everything=True) if outcome == "purged" else queue.sweep().dead) == 1
    info = queue.get("g", "a")
    assert info is not None
    assert (info.state, info.status, info.attempts) == (outcome, "error", 2)
    assert info.note.startswith("ValueError: ")
    assert info.finished_at == pytest.approx(queue.now, abs=0.001)
    assert [*queue.history(outcome=outcome)] == queue.find("a") == [info]


def test_an_end_that_begins_with_its_claim_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = History.endings

    def endings(self: History, group: Any, first: int, done: int) -> Any:
        claimed = (int(group.leased.token) - self.ahead_us) / 1e6
        group.times = [(claimed, ended) for _, ended in group.times]
        return real(self, group, first, done)

    walk = Walk("park", 60.0)
    for id in "12345678":
        walk.do("append", "a", id, "quick")
    monkeypatch.setattr(History, "endings", endings)
    with pytest.raises(AssertionError, match="s off"):
        walk.do("drain", "a", "1", "")
    assert walk.queue.info().backlog == 0


def test_a_queue_without_a_history_has_none() -> None:
    queue = MemoryQueue("q")
    queue.append({}, group="g", id="a")
    queue.drain(lambda message: None)
    assert not queue.history()
    assert queue.find("a") == []
    assert queue.info().history is None
    info = queue.get("g", "a")
    assert info is not None
    assert (info.state, info.status, info.finished_at) == ("handled", "finished", None)
    assert queue.sweep().history == 0


@pytest.mark.parametrize(
    "wrong", [{"since": -1}, {"until": float("nan")}, {"outcome": "done"}, {"kind": 7}, {"limit": 0}]
)
def test_what_can_not_be_meant_is_refused(wrong: Any) -> None:
    with pytest.raises(errors.ConfigurationError):
        MemoryQueue("q", history_window=60).history(**wrong)


def test_the_log_of_a_message_has_its_last_five_attempts() -> None:
    queue = MemoryQueue("q", max_attempts=8, backoff=0.1)
    queue.append({}, group="g", id="a")

    def fail(message: Message) -> None:
        queue.advance(1)
        raise ValueError(f"try {message.attempt}: " + "é" * 300)

    queue.drain(fail)
    info = queue.get("g", "a")
    assert info is not None
    assert info.error is not None
    assert [(one.attempt, one.error[:18]) for one in info.error.log] == [
        (n, f"ValueError: try {n}:") for n in (4, 5, 6, 7)
    ]
    assert all(190 < len(one.error.encode()) <= 200 for one in info.error.log)
    found = queue.explain("g")
    assert [one.attempt for one in found.log] == [4, 5, 6, 7, 8]
    assert found.log[-1].error == found.log[0].error.replace("4", "8")
    ages = [later.at - one.at for one, later in zip(found.log, found.log[1:], strict=False)]
    assert all(age > 1 for age in ages)
    (group,) = queue.groups()
    assert group.failure == info.error
    queue.skip("g", dead_letter=True)
    assert queue.dead()[0].error.log == info.error.log


def test_the_log_is_of_one_message_and_leaves_out_uncounted_outages() -> None:
    queue = MemoryQueue("q", max_attempts=3, backoff=0.1)
    queue.append({"n": 1}, group="g", id="a")
    queue.append({"n": 2}, group="g", id="b")
    raised: list[Any] = [ValueError("one"), ConnectionError("away"), ConnectionError("away"), None, KeyError("b"), None]
    logs = []

    def handle(message: Message) -> None:
        info = queue.get("g", message.id)
        assert info is not None
        logs.append([one.error for one in info.error.log] if info.error else None)
        if error := raised.pop(0):
            raise error

    queue.drain(handle)
    assert logs == [None, [], ["ValueError: one"], ["ValueError: one"], None, []]
