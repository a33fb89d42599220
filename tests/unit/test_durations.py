"""A duration is a number of seconds, a text with a unit or a timedelta, wherever one is taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sequencer import Outage, Retry
from sequencer.errors import ConfigurationError, InvalidTime, WrongSignal
from sequencer.processes.master.run_file import read_file
from sequencer.settings.options import consumer_options, queue_options
from sequencer.store.envelope import encode_due
from sequencer.values.durations import seconds


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
    with pytest.raises(ValueError, match="a number of seconds, or text like"):
        seconds(given)


@pytest.mark.parametrize("given", [8e9, 1e308, 10**400, timedelta(days=999_999_999), "999999999d"])
def test_a_signal_of_a_handler_takes_no_time_that_a_script_can_not_hold(given: Any) -> None:
    for signal in (Retry, Outage):
        with pytest.raises(WrongSignal):
            signal("why", after=given)
    with pytest.raises(InvalidTime):
        encode_due(given, None)
    with pytest.raises(ConfigurationError):
        queue_options("q", "n", {"backoff": given})


def test_so_do_consumers_messages_and_signals() -> None:
    options = consumer_options(lease="1m", max_age="2h", handler_timeout="500ms")
    assert (options.lease_s, options.max_age_s, options.handler_timeout_s) == (60.0, 7200.0, 0.5)
    assert encode_due("5m", None) == "+300000000"
    with pytest.raises(InvalidTime, match=r"delay='5x'"):
        encode_due("5x", None)
    assert (Retry("why", after="5m").after, Outage("why", after=timedelta(seconds=3)).after) == (300.0, 3.0)
    with pytest.raises(WrongSignal, match=r"Retry\(after='5x'\)"):
        Retry("why", after="5x")


@pytest.mark.parametrize("write", [lambda text: f'"{text}"', lambda text: str(int(seconds(text)))])
def test_so_does_the_file_of_run(tmp_path: Path, write: Callable[[str], str]) -> None:
    path = tmp_path / "sequencer.toml"
    path.write_text(
        f"run_for = {write('1h')}\n[alerts]\nlag = {write('5m')}\n"
        f"[targets.t]\ntype = 'command'\nexec = 'true'\ntimeout = {write('3s')}\n"
        f"[queues.q]\nexec = 'true'\nlease = {write('1m')}\nbackoff = {write('2s')}\n"
    )
    plan = read_file(path, redis="unix:///nowhere")
    (pool,) = plan.pools
    assert pool.alerts
    assert (plan.run_for_s, plan.targets[0].timeout_s, pool.alerts.limits.lag) == (3600.0, 3.0, 300.0)
    assert (pool.config.lease_s, pool.config.settings["backoff"]) == (60.0, 2.0)
