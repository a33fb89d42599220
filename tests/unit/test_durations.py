"""A duration is a number of seconds, a text with a unit or a timedelta, wherever one is taken."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sequencer import Outage, Retry
from sequencer.errors import ConfigurationError, InvalidTime, WrongSignal
from sequencer.settings.options import consumer_options, queue_options
from sequencer.store.envelope import encode_due
from sequencer.values.durations import seconds

from ..support.refused import refused


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.25, 0.25),
        ("90", 90.0),
        (" 5 m ", 300.0),
        ("1d", 86_400.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        (timedelta(minutes=1), 60.0),
    ],
)
def test_a_duration_in_seconds(given: Any, expected: float) -> None:
    assert seconds(given) == expected


@pytest.mark.parametrize(
    "given",
    ["", "5x", "m", "-5s", "5 5", "1e3", "inf", "\u0665s", "9" * 5000, -1, float("nan"), float("inf"), True, None, [5]],
)
def test_what_is_no_duration_is_refused(given: Any) -> None:
    assert seconds(given) is None


@pytest.mark.parametrize("given", [8e9, 1e308, 10**400, timedelta(days=999_999_999), "999999999d"])
def test_a_signal_of_a_handler_takes_no_time_that_a_script_can_not_hold(given: Any) -> None:
    for signal in (Retry, Outage):
        with refused(WrongSignal, "duration_invalid", name="after"):
            signal("why", after=given)
    with refused(InvalidTime, "duration_invalid", name="delay"):
        encode_due(given, None)
    with refused(ConfigurationError, "duration_invalid", name="backoff", high=86_400):
        queue_options("q", "n", {"backoff": given})


def test_so_do_consumers_messages_and_signals() -> None:
    options = consumer_options(lease="1m", max_age="2h", handler_timeout="500ms")
    assert (options.lease_s, options.max_age_s, options.handler_timeout_s) == (60.0, 7200.0, 0.5)
    assert encode_due("5m", None) == "+300000000"
    with refused(InvalidTime, "duration_invalid", name="delay", value="5x"):
        encode_due("5x", None)
    assert (Retry("why", after="5m").after, Outage("why", after=timedelta(seconds=3)).after) == (300.0, 3.0)
    with refused(WrongSignal, "duration_invalid", name="after", value="5x"):
        Retry("why", after="5x")
