"""What a run of `consume` did, said at its end."""

from __future__ import annotations

import pytest

from sequencer.cli.summary import summarize
from sequencer.consume.emitter import EventEmitter
from sequencer.processes.consumer_process import Totals

from .test_events import told


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        (Totals(failed=3, parked=3, dead=1), "3 failed attempts, groups parked 3 times, 1 dead letter"),
        (Totals(failed=12, outages=9, parked=1), "12 failed attempts (9 in an outage), 1 parked group"),
        (Totals(), "no failures"),
    ],
)
def test_one_group_that_is_parked_again_is_not_several(
    totals: Totals, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    summarize("jobs", totals, 1, "text")
    assert capsys.readouterr().err == f"consumed 0 messages in 0.00 s with 1 consumer: {said}\n"


def test_a_consumer_counts_which_of_its_failed_attempts_were_an_outage() -> None:
    emitter = EventEmitter("jobs")
    for error in (ConnectionError("refused"), ValueError("no")):
        emitter.emit(told(error))
    assert (emitter.counts.failed, emitter.counts.outages) == (2, 1)
