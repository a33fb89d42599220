"""What all handlers need goes away under real consumers of two services: nothing is parked, and all goes on by itself.

    SEQUENCER_TEST_OUTAGE_S=90 .venv/bin/pytest -s tests/process/test_outage.py

keeps it away for 90 s, and prints the figures.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

from .conftest import Cli

LASTS_S = float(os.environ.get("SEQUENCER_TEST_OUTAGE_S", "0"))
GROUPS, PATIENCE_S = 1000, 60.0
APP = '''"""Needs a bank for each message, and writes down what became of it."""

import json, os, time


def handle(message):
    is_away = os.path.exists("away")
    line = {"what": "failed" if is_away else "handled", "at": time.monotonic(), "attempt": message.attempt}
    with open("calls.ndjson", "ab", buffering=0) as calls:
        calls.write(json.dumps(line).encode() + b"\\n")
    if is_away:
        raise ConnectionError("the bank is closed")
'''


@pytest.mark.slow
def test_a_dependency_that_goes_away_parks_nothing_and_all_goes_on_by_itself(cli: Cli, seq: Sequencer) -> None:
    """1,000 groups, four consumers of two services, 200 messages a second."""
    away, history, stop = cli.directory / "away", cli.directory / "calls.ndjson", threading.Event()
    (cli.directory / "shop.py").write_text(APP)
    appended = list[str]()

    def calls(what: str) -> list[dict[str, Any]]:
        lines = history.read_text().splitlines(keepends=True) if history.exists() else []
        found: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("\n")]
        return [one for one in found if one["what"] == what]

    def produce() -> None:
        while not stop.wait(0.005):
            appended.append(seq.append(1, group=f"g{len(appended) % GROUPS}").id)

    seq.append_many({"group": f"g{number}", "body": 1} for number in range(GROUPS))
    services = [cli.start("consume", "jobs", "--app", "shop:handle", "-n", 2) for _ in range(2)]
    producer = threading.Thread(target=produce)
    producer.start()
    try:
        wait_until(lambda: len(calls("handled")) > GROUPS, PATIENCE_S, "all work")
        away.touch()
        away_at = time.monotonic()
        wait_until(
            lambda: time.monotonic() - away_at >= LASTS_S and (found := seq.info().outage) and found.probes >= 3,
            LASTS_S + PATIENCE_S,
            "three probes",
        )
        found = seq.info()
        assert found.parked == 0
        assert found.outage
        assert "Connection" in found.outage.error
        away.unlink()
        back_at = time.monotonic()
        wait_until(lambda: any(one["at"] > back_at for one in calls("handled")), PATIENCE_S, "one is handled")
    finally:
        stop.set()
        producer.join()
    wait_until(lambda: seq.info().groups == 0, PATIENCE_S, "all are handled")
    for service in services:
        service.signal()
    assert [service.ended() for service in services] == [0, 0]
    handled, failed, info = calls("handled"), calls("failed"), seq.info()
    went_on_s = min(one["at"] for one in handled if one["at"] > back_at) - back_at
    print(f"away {back_at - away_at:.1f} s: {len(failed)} calls to it, {info.parked} parked, went on {went_on_s:.2f} s")
    assert went_on_s < 6.0
    assert len(handled) == GROUPS + len(appended), "each once"
    assert {one["attempt"] for one in handled} == {1}, "no attempt is lost"
    assert (info.parked, info.dead, info.totals["outages"]) == (0, 0, 1)
    # Probes, five that opened it, and as many more as were acknowledged late, of what had been handled before.
    assert len(failed) <= 40 + (back_at - away_at) / 5
    said = "".join(service.stderr for service in services)
    assert said.count("outage began") == said.count("outage ended") == 1
