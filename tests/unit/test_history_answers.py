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
from sequencer.calls.claim import LeasedGroup
from sequencer.drain.held import Held
from sequencer.drain.held_group import History
from sequencer.store.ending import NOTE_BYTES, Ending, Remark, all_handled, decode_ending, handled
from sequencer.store.keys import shard_keys
from sequencer.testing.memory_queue import MemoryQueue
from sequencer.values.history import Outcome

from ..support.handling import got
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
        **{("a", id): "finished" for id in IDS},
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
    info = got(queue, "g", "a")
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
    with pytest.raises(AssertionError):
        walk.do("drain", "a", "1", "")
    assert walk.queue.info().backlog == 0


def test_a_queue_without_a_history_has_none() -> None:
    queue = MemoryQueue("q")
    queue.append({}, group="g", id="a")
    queue.drain(lambda message: None)
    assert not queue.history()
    assert queue.find("a") == []
    assert queue.info().history is None
    info = got(queue, "g", "a")
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
    info = got(queue, "g", "a")
    assert info.error is not None
    assert [(one.attempt, one.error[:18]) for one in info.error.log] == [
        (n, f"ValueError: try {n}:") for n in (4, 5, 6, 7)
    ]
    assert all(190 < len(one.error.encode()) <= 200 for one in info.error.log)
    found = queue.explain("g")
    assert [one.attempt for one in found.log] == [4, 5, 6, 7, 8]
    assert found.log[-1].error == found.log[0].error.replace("4", "8")
    (group,) = queue.groups()
    assert group.failure == info.error
    queue.skip("g", dead_letter=True)
    assert queue.dead()[0].error.log == info.error.log


# -- how an end is stored ------------------------------------------------------------------------------------------


US = st.integers(1_600_000_000_000_000, 1_900_000_000_000_000)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=600)


@given(st.integers(1, 9999), US, st.integers(0, 10**13), st.integers(0, 10**11), TEXT, TEXT, st.booleans())
def test_an_end_comes_back(
    attempts: int, stamp: int, waited: int, took: int, kind: str, note: str, has_failures: bool
) -> None:
    began = stamp + waited
    value = handled(attempts, stamp, began, began + took, "host:7:abc", Remark(kind, note, has_failures)).encode()
    cut = note.encode()[:NOTE_BYTES].decode("utf-8", "ignore")
    times = (stamp // 1000, began // 1000, (began + took) // 1000)
    outcome: Outcome = "failed" if has_failures else "finished"
    assert decode_ending(value) == Ending(outcome, attempts, *times, "host:7:abc", kind, cut)
    assert len(value) < 700 + len(kind.encode())


RUN = st.tuples(st.integers(1, 3), st.integers(0, 5000), st.sampled_from([0.0, 1e-5, 0.4e-3, 2e-3, 3.0]))


@given(st.lists(RUN, min_size=1, max_size=20), st.integers(10**15, 2 * 10**15), st.floats(0, 1e6))
def test_many_quick_ones_are_told_as_each_by_itself(runs: list[tuple[int, int, float]], first: int, at: float) -> None:
    """But for a ms, where a float is rounded."""
    messages, times = [], []
    for attempts, waited, took in runs:
        messages.append(Message("i", ("g",), 1.0, 1, {}, attempts, 1, 1.0, "q", first - waited))
        times.append((at, at + took))
        at += took
    texts = all_handled(messages, times, first - times[0][0] * 1e6, "me")
    many = [decode_ending(text.encode()) for text in texts]
    for message, (began, ended), found in zip(messages, times, many, strict=True):
        us = first + (began - times[0][0]) * 1e6, first + (ended - times[0][0]) * 1e6
        one = decode_ending(handled(message.attempt, message.stamp, us[0], us[1], "me").encode())
        assert (found.outcome, found.attempts, found.consumer, found.note) == ("finished", one.attempts, "me", "")
        for name in ("appended_ms", "began_ms", "ended_ms"):
            assert abs(getattr(found, name) - getattr(one, name)) <= 1


def test_what_a_consumer_knows_besides_is_told_with_its_message() -> None:
    messages = [Message(str(n), ("g",), 1.0, 1, {}, 1, 1, 1.0, "q", 10**15) for n in range(3)]
    members = [f"{message.stamp}{message.id}" for message in messages]
    leased = LeasedGroup("g", ("g",), f"{10**15 + 10**6}", "", messages, members, ["1"] * 3, "", "")
    held = Held([shard_keys("n", "q", 0)], 10.0, history=History("me", lambda: "ends"))
    held.take(0, [leased], 0.0, 0.0, 10**15)
    for remark in (None, Remark("mail", "step a failed", has_failures=True), None):
        if remark:
            held.groups[0].remarks[held.groups[0].done] = remark
        held.finish(held.groups[0], 1.0, 1.5)
    held.settle(everything=True)
    (entry,) = held.pending_acks.acks
    found = [decode_ending(str(text).encode()) for text in entry.endings]
    assert [(one.outcome, one.kind, one.note) for one in found] == [
        ("finished", "", ""),
        ("failed", "mail", "step a failed"),
        ("finished", "", ""),
    ]
    assert {(one.began_ms, one.ended_ms) for one in found} == {(10**12 + 1000, 10**12 + 1500)}


@pytest.mark.parametrize("value", [b"", b"x", b"f", b"f1", b"q1 2 3", b"f1 2 3 4 5", b"fz 1 1", b"\xff\xfe"])
def test_foreign_bytes_are_refused(value: bytes) -> None:
    with pytest.raises((ValueError, LookupError)):
        decode_ending(value)
