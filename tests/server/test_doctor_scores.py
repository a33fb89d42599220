"""The doctor tells of scores in several units, by their magnitude and never by their ratio."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sequencer import Finding, Sequencer
from sequencer.doctor.diagnose import is_healthy
from sequencer.errors import LateMessage
from sequencer.values.score_units import unit_of

NOW_S = 1_795_000_000


def told(seq: Sequencer) -> list[Finding]:
    found = seq.doctor()
    assert is_healthy(found), "it is told, and no more"
    return [one for one in found if one.check == "scores"]


@pytest.mark.parametrize("since_1970", [1e8, 4e9])
@pytest.mark.parametrize(("factor", "unit"), [(1.0, "s"), (1e3, "ms"), (1e6, "us")])
def test_a_time_is_in_the_unit_of_its_magnitude(since_1970: float, factor: float, unit: str) -> None:
    assert unit_of(since_1970 * factor) == unit


def test_each_unit_has_an_example(make: Callable[..., Sequencer], namespace: str) -> None:
    seq = make(shards=2)
    for n in range(20):
        seq.append(n, group=["user", n], score=NOW_S + n)
    assert told(seq) == []
    seq.append("late", group=["user", 3], score=NOW_S * 1000)
    (one,) = told(seq)
    pause = f"sequencer pause jobs --namespace {namespace}"
    assert (one.code, one.commands["fix"].startswith(f"in this order: {pause};")) == ("mixed score units", True)
    assert {*one.fields["units"]} == {"s", "ms"}
    assert one.fields["units"]["ms"] == f"group user 3: {NOW_S * 1000}"
    seq.append("arrival", group="h")
    seq.append("us", group="h", score=NOW_S * 1_000_000)
    assert told(seq)[0].fields["units"]["us"].startswith("group h: ")


def test_the_numbers_of_a_sequence_are_no_times(make: Callable[..., Sequencer]) -> None:
    seq = make(sequence=True)
    seq.append(1, group="g", score=1)
    seq.append(2, group="h", score=10**12)
    assert told(seq) == []


def test_a_watermark_counts_as_well(make: Callable[..., Sequencer]) -> None:
    """It makes all that comes later in another unit late, for as long as it is known."""
    seq = make(on_late="refuse")
    seq.append(1, group="a", score=NOW_S * 1000)
    seq.append(1, group="b", score=NOW_S)
    seq.consume(lambda message: None, until_empty=True)
    with pytest.raises(LateMessage):
        seq.append(2, group="a", score=NOW_S + 1)
    (one,) = told(seq)
    assert one.fields["units"]["ms"] == f"group a: {NOW_S * 1000}"
