"""Which lines an `append` knows to be stored, wherever it is broken off."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.cli.tally import Tally
from sequencer.errors import BatchRefused, InvalidMessage, OutcomeUnknown, QueueFull, ServerUnavailable
from sequencer.values.message import BatchReceipt, Refused


class Breaking:
    """A queue that is full, or away, from the so-manieth message on; or that finds a bad message before that."""

    def __init__(self, room: int, error: Exception, *, chunk: int = 3) -> None:
        self.stored: list[Any] = []
        self._room, self._error, self._chunk = room, error, chunk

    def append_many(self, bodies: list[Any], *, on_refused: str, chunk: int, replace: bool) -> BatchReceipt:
        done, refused = 0, list[Refused]()
        for first in range(0, len(bodies), self._chunk):
            some = bodies[first : first + self._chunk]
            bad = [first + at for at, body in enumerate(some) if body == "bad"]
            errors = [Refused(at, InvalidMessage("bad")) for at in bad]
            if bad and on_refused == "stop":
                failure = BatchRefused(refused=errors, stored=done)
                failure.earlier = BatchReceipt(done, 0, [])
                raise failure
            good = [body for body in some if body != "bad"]
            if len(self.stored) + len(good) > self._room:
                self._error.earlier = BatchReceipt(done, 0, refused)  # type: ignore[attr-defined]  # it is one of ours
                raise self._error
            self.stored += good
            done += len(good)
            refused += errors
        return BatchReceipt(done, 0, refused)


@given(
    bodies=st.lists(st.sampled_from(["good", "good", "good", "bad"]), min_size=1, max_size=20),
    gaps=st.lists(st.integers(1, 3), min_size=20, max_size=20),
    room=st.integers(0, 20),
    on_error=st.sampled_from(["stop", "skip"]),
    kind=st.sampled_from([QueueFull, ServerUnavailable, OutcomeUnknown]),
)
def test_up_to_the_last_line_all_is_stored_or_refused_and_behind_it_nothing(
    bodies: list[str], gaps: list[int], room: int, on_error: Any, kind: type[Exception]
) -> None:
    numbers = [sum(gaps[: at + 1]) for at in range(len(bodies))]
    queue: Any = Breaking(room, kind("gone"))
    numbered = [
        (number, f"{body}{number}" if body == "good" else body) for number, body in zip(numbers, bodies, strict=True)
    ]
    tally, is_broken = Tally(queue, on_error), False
    try:
        tally.add(numbered)
    except kind:
        is_broken = True
    settled = [body for number, body in numbered if number <= tally.last_line]
    assert queue.stored == [body for body in settled if body != "bad"]
    assert (tally.appended, tally.refused) == (len(queue.stored), settled.count("bad"))
    assert is_broken or tally.problem or len(settled) == len(bodies)
    if is_broken:
        assert tally.last_line < numbers[-1]


def test_where_other_shards_stored_lines_behind_a_refused_one_none_counts_as_settled() -> None:
    class OfShards(Breaking):
        def append_many(self, bodies: list[Any], **_: Any) -> BatchReceipt:
            failure = BatchRefused(refused=[Refused(1, InvalidMessage("bad"))], stored=2)
            failure.earlier = BatchReceipt(0, 0, [])
            raise failure

    queue: Any = OfShards(9, QueueFull("full"))
    tally = Tally(queue, last_line=4)
    tally.add([(n, str(n)) for n in range(5, 9)])
    assert (tally.appended, tally.last_line, tally.is_partial, bool(tally.problem)) == (2, 4, True, True)


def test_a_tally_that_counts_what_came_before_twice_would_be_seen() -> None:
    queue: Any = Breaking(3, QueueFull("full"))
    tally = Tally(queue, appended=5)
    with pytest.raises(QueueFull):
        tally.add([(n, str(n)) for n in range(10, 20)])
    assert (tally.appended, tally.last_line) == (8, 12)
