"""How an end is kept: what is written comes back; foreign bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.calls.claim import LeasedGroup
from sequencer.drain.held import Held
from sequencer.drain.held_group import History
from sequencer.store.history.ending import (
    NOTE_BYTES,
    Ending,
    Remark,
    all_handled,
    decode_ending,
    field_of,
    handled,
    parts_of,
)
from sequencer.store.keys import shard_keys
from sequencer.values.history import Outcome
from sequencer.values.message import Message

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


@given(st.integers(1, 9999), US, st.floats(0, 1e13), st.floats(0, 1e11))
def test_a_plain_end_comes_back_in_few_bytes(attempts: int, stamp: int, waited: float, took: float) -> None:
    value = handled(attempts, stamp, stamp + waited, stamp + waited + took, "host:4711:0a1b2c").encode()
    ending = decode_ending(value)
    assert (ending.outcome, ending.attempts, ending.consumer) == ("finished", attempts, "host:4711:0a1b2c")
    assert (ending.kind, ending.note, ending.appended_ms) == ("", "", stamp // 1000)
    assert ending.began_ms == int(stamp + waited) // 1000
    assert len(value) <= 64


RUN = st.tuples(st.integers(1, 3), st.integers(0, 5000), st.sampled_from([0.0, 1e-5, 0.4e-3, 2e-3, 3.0]))


@given(st.lists(RUN, max_size=20), st.integers(10**15, 2 * 10**15), st.floats(0, 1e6))
def test_many_quick_ones_are_told_as_each_by_itself(runs: list[tuple[int, int, float]], first: int, at: float) -> None:
    """But for a ms, where a float is rounded."""
    messages, times = [], []
    for attempts, waited, took in runs:
        messages.append(Message("i", ("g",), 1.0, 1, {}, attempts, 1, 1.0, "q", first - waited))
        times.append((at, at + took))
        at += took
    many = (
        [decode_ending(text.encode()) for text in all_handled(messages, times, first - times[0][0] * 1e6, "me")]
        if times
        else []
    )
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
    held = Held([shard_keys("n", "q", 0)], 10.0, writer=History("me"), keeps_history=lambda: "ends")
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
    with pytest.raises(ValueError, match=r"end that begins|invalid literal|unpack"):
        decode_ending(value)


def test_an_id_may_hold_a_line_end() -> None:
    assert parts_of(field_of("7:eu", "a\nb")) == ("7:eu", "a\nb")


def test_a_server_whose_clock_is_set_is_followed() -> None:
    history = History("me")
    history.learn(5_000_000, 1.0, 1.002)
    assert history.ahead_us == pytest.approx(3_999_000)
    history.learn(0, 1.5, 1.5)
    history.learn(90_000_000, 2.0, 2.0)
    assert history.ahead_us == pytest.approx(88_000_000)
