"""The signals that a handler raises: each begins with its reason, and a Retry that is written wrongly loses nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sequencer.drain.outcome import Decision, decide
from sequencer.errors import Park, Retry, SetAside, WrongSignal
from sequencer.settings.options import QueueOptions

from ..support.refused import refused


@pytest.mark.parametrize("number", [0, 2.5, True, timedelta(seconds=5)])
def test_a_number_is_no_reason_and_the_text_names_what_is_meant(number: Any) -> None:
    with refused(WrongSignal, "reason_invalid", name="Retry", value=number) as caught:
        Retry(number)
    assert isinstance(caught.value, TypeError)


def test_each_signal_begins_with_its_reason() -> None:
    assert [str(kind("why")) for kind in (Retry, Park, SetAside)] == ["why"] * 3
    assert (str(Retry("why", 5)), Retry("why", after=5).after, Retry(after=5).after) == ("why", 5, 5)
    assert all(str(kind()).startswith("the handler ") for kind in (Retry, Park, SetAside))


@pytest.mark.parametrize("listed", ["ValueError", "Exception", "Retry", "WrongSignal"])
@pytest.mark.parametrize("option", ["park_on", "dead_letter_on"])
def test_a_retry_is_one_whatever_the_lists_say_also_where_it_was_written_wrongly(option: str, listed: str) -> None:
    """`raise Retry(5)` in a handler, as it was once written, must not park or set aside at once."""
    lists: Any = {option: (listed,)}
    options = QueueOptions(queue="q", max_attempts=2, backoff_s=1, **lists)
    assert decide(options, 1, Retry(after=7), 0.0).delay_s == 7
    with pytest.raises(WrongSignal) as caught:
        Retry(5)  # type: ignore[arg-type]  # that is the point
    assert decide(options, 1, caught.value, 0.0).delay_s == 0.5, "the queue's backoff"
    for error in (Retry(after=7), caught.value):
        assert decide(options, 2, error, 0.0) == Decision(None, "park"), "as on_failure says, not the list"
