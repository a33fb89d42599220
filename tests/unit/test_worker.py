"""What a consumer reports when its supervisor stands still and the pipe is full, and how long a report may be."""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from sequencer.processes.consumer_process import Reports
from sequencer.processes.worker.config import WorkerConfig
from sequencer.processes.worker.control_thread import ControlThread
from sequencer.processes.worker.run import SupervisedConsumer, report_line

COUNTS = {"handled": 3, "failed": 1}


@pytest.fixture
def reports() -> Iterator[Reports]:
    reports = Reports()
    yield reports
    reports.close()


def fill(reports: Reports) -> None:
    line = json.dumps({"pid": 1, "event": "nothing"}).encode() + b"\n"
    with suppress(BlockingIOError):
        while True:
            os.write(reports.write_fd, line)


def worker(reports: Reports) -> SupervisedConsumer:
    made = SupervisedConsumer(WorkerConfig(queue="q", report_fd=reports.write_fd), control_fd=-1)
    made._control.consumer = SimpleNamespace(counts=dict(COUNTS), handlers_s=1.5, runs=[])  # type: ignore[assignment]
    return made


def test_counts_that_found_no_room_come_again(reports: Reports) -> None:
    fill(reports)
    control: ControlThread = worker(reports)._control
    control.tick(1.0)
    assert [one for one in reports.read() if one["event"] == "state"] == []
    control.tick(2.0)
    assert [one["counts"] for one in reports.read() if one["event"] == "state"] == [COUNTS]


def test_what_is_done_each_second_may_fail_and_that_is_an_event(
    reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    control: ControlThread = worker(reports)._control

    def broken(_now: float) -> None:
        raise ZeroDivisionError

    control.tick_hooks.append(broken)
    control.tick(1.0)
    record: Any = caplog.records[0]
    assert (record.event, record.queue, record.error_type) == ("consumer error", "q", "ZeroDivisionError")
    assert record.exc_info is not None


@pytest.mark.slow
def test_the_end_waits_until_its_supervisor_goes_on(reports: Reports) -> None:
    """Else what it did is in no summary, and it counts as one that died."""
    fill(reports)
    ending = threading.Thread(target=worker(reports).report_end, args=(0,), daemon=True)
    ending.start()
    ending.join(1.5)
    assert ending.is_alive()
    said: list[dict[str, Any]] = []
    while ending.is_alive() or not said or said[-1]["event"] != "exit":
        select.select([reports.read_fd], [], [], 5.0)
        said += reports.read()
    ends = [(one["event"], one.get("counts"), one.get("status")) for one in said[-2:]]
    assert ends == [("state", COUNTS, None), ("exit", None, 0)]


def test_a_report_fits_into_one_write() -> None:
    """The pipe is shared: a longer line might be mixed with another's."""
    event = {"event": "exit", "status": 0, "threads": ["\U0001f600" * 50] * 20}
    line = report_line(event)
    assert len(line) <= select.PIPE_BUF
    assert json.loads(line)["event"] == event["event"]
