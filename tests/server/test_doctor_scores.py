"""The doctor tells of scores in several units, by their magnitude and never by their ratio."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer import Finding, Sequencer
from sequencer.doctor.diagnose import is_healthy
from sequencer.doctor.scores import examples_of
from sequencer.errors import LateMessage
from sequencer.testing import wait_until
from sequencer.texts.commands import to_one_unit
from sequencer.values.score_units import unit_of

NOW_S = 1_795_000_000


def told(seq: Sequencer) -> list[Finding]:
    found = seq.doctor()
    assert is_healthy(found), "it is told, and no more"
    return [one for one in found if one.check == "scores"]


@given(st.floats(0, 4e9), st.sampled_from([(1.0, "seconds"), (1e3, "milliseconds"), (1e6, "microseconds")]))
def test_a_time_is_in_the_unit_of_its_magnitude(since_1973: float, unit: tuple[float, str]) -> None:
    factor, name = unit
    assert unit_of((1e8 + since_1973) * factor) == name


@given(st.lists(st.tuples(st.just("g"), st.floats(0, 0.99e11) | st.integers(0, 99_999_999_999))))
def test_scores_of_one_unit_are_not_told_whatever_their_ratio(scored: Any) -> None:
    assert len(examples_of(scored)) < 2


def test_each_unit_has_an_example(make: Callable[..., Sequencer], namespace: str) -> None:
    seq = make(shards=2)
    for n in range(20):
        seq.append(n, group=["user", n], score=NOW_S + n)
    assert told(seq) == []
    seq.append("late", group=["user", 3], score=NOW_S * 1000)
    (one,) = told(seq)
    assert (one.code, one.commands["fix"]) == ("mixed score units", to_one_unit("jobs", namespace))
    assert list(one.fields["examples"]) == ["seconds", "milliseconds"]
    assert one.fields["examples"]["milliseconds"] == (("user", "3"), NOW_S * 1000)
    seq.append("arrival", group="h")
    seq.append("us", group="h", score=NOW_S * 1_000_000)
    assert told(seq)[0].fields["examples"]["microseconds"][0] == ("h",)


def test_the_numbers_of_a_sequence_are_no_times(make: Callable[..., Sequencer]) -> None:
    seq = make(sequence=True)
    seq.append(1, group="g", score=1)
    seq.append(2, group="h", score=10**12)
    assert told(seq) == []


def test_a_watermark_in_a_higher_unit_is_told_with_what_forgets_it(
    make: Callable[..., Sequencer], namespace: str
) -> None:
    """It makes all that comes later in seconds late, for as long as its group goes on."""
    seq = make(on_late="refuse", watermark_window=900.0)
    seq.append(1, group="a", score=NOW_S * 1000)
    seq.append(1, group="b", score=NOW_S)
    seq.consume(lambda message: None, until_empty=True)
    with pytest.raises(LateMessage, match="if producers send times in several units, see: sequencer doctor"):
        seq.append(2, group="a", score=NOW_S + 1)
    (one,) = told(seq)
    forget, keep = (
        f"sequencer configure jobs --watermark-window {s} --namespace {namespace}" for s in ("0.001", "900")
    )
    assert (one.code, one.group, one.fields["mark"]) == ("watermark unit", ("a",), NOW_S * 1000)
    assert list(one.commands.values()) == [forget, keep]
    other = make(watermark_window=0.001)

    def is_forgotten() -> bool:
        with suppress(LateMessage):  # of what was remembered in the last thousandth of the window
            other.append(2, group="a", score=NOW_S + 2)
            other.consume(lambda message: None, until_empty=True)
        return not told(other)

    wait_until(is_forgotten)
    again = make(watermark_window=900.0)
    assert told(again) == []
    again.append(5, group="a", score=NOW_S + 5)
    with pytest.raises(LateMessage):
        again.append(0, group="a", score=NOW_S)


def test_a_consumer_that_meets_both_says_so_once_and_what_to_do_first(
    make: Callable[..., Sequencer], namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    seq = make()
    for number in range(5):
        seq.append(number, group=["a", number], score=NOW_S + number)
        seq.append(number, group=["b", number], score=(NOW_S + number) * 1000)
    seq.consume(lambda message: None, until_empty=True)
    (one,) = [record for record in caplog.records if getattr(record, "event", "") == "mixed scores"]
    assert one.levelname == "WARNING"
    assert one.getMessage().endswith(to_one_unit("jobs", namespace))
