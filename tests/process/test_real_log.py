"""The real log of a help desk through the installed command line: every ticket's events in order, each once.

Case 1 appends it shuffled from four processes and only then consumes; case 2 appends it in its own order while
consumers run. Runs where the log is: `../shared/data` beside the repository.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

from .conftest import Cli

LOG = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "helpdesk.ndjson.gz"
EVENTS, TICKETS = 21_348, 4_580


def real_log() -> list[bytes]:
    """Its lines, in its own order. Skips the test where there is no such log."""
    if not LOG.exists():
        pytest.skip(f"no real log here: {LOG.name} is not in ../shared/data beside the repository")
    with gzip.open(LOG, "rb") as stream:
        return stream.readlines()


pytestmark = pytest.mark.nightly

APPENDERS = 4
LONG_S = 90.0
BY = ("--group-by", "case", "--id-by", "n", "--score-by", "ts")


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    """The lines of the log, in its own order."""
    return real_log()


def by_ticket(printed: list[dict[str, Any]], log: list[bytes]) -> dict[str, list[dict[str, Any]]]:
    """Each ticket's printed lines in their order, after a check that every event came out unchanged and once."""
    events = {event["n"]: event for event in map(json.loads, log)}
    assert len(events) == EVENTS
    assert len(printed) == EVENTS, "each once"
    assert {line["body"]["n"]: line["body"] for line in printed} == events, "none lost, none changed"
    tickets: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in printed:
        assert line["group"] == [line["body"]["case"]]
        assert (line["id"], line["score"]) == (str(line["body"]["n"]), line["body"]["ts"])
        tickets[line["group"][0]].append(line)
    assert len(tickets) == TICKETS
    for name, lines in tickets.items():
        order = [(line["score"], line["appended_at"]) for line in lines]
        assert order == sorted(set(order)), f"{name} by (ts, arrival)"
    return tickets


def test_appended_shuffled_by_four_processes_then_consumed(cli: Cli, make: Any, log: list[bytes]) -> None:
    shuffled = random.Random(2).sample(log, len(log))
    for part in range(APPENDERS):
        (cli.directory / f"part-{part}.ndjson").write_bytes(b"".join(shuffled[part::APPENDERS]))
    appends = [cli.start("append", "tickets", f"part-{part}.ndjson", *BY, "--json") for part in range(APPENDERS)]
    assert [append.ended(LONG_S) for append in appends] == [0] * APPENDERS
    assert sum(append.lines()[0]["appended"] for append in appends) == EVENTS
    assert make("tickets").info().backlog == EVENTS

    consume = cli.start("consume", "tickets", "-n", 8, "--until-empty")
    assert consume.ended(LONG_S) == 0
    by_ticket(consume.lines(), log)
    assert f"consumed {EVENTS:,} messages" in consume.stderr
    assert ": no failures" in consume.stderr


def test_appended_in_its_own_order_while_consumers_run(cli: Cli, make: Any, log: list[bytes]) -> None:
    queue: Sequencer = make("tickets")
    consume = cli.start("consume", "tickets", "-n", 8)
    wait_until(lambda: len(consume.consumers()) == 8, LONG_S, "eight consumers")
    (cli.directory / "log.ndjson").write_bytes(b"".join(log))
    append = cli.run("append", "tickets", "log.ndjson", *BY, timeout=LONG_S)
    assert append.stdout.startswith(f"appended {EVENTS:,}, duplicates 0, refused 0 in ")
    wait_until(lambda: queue.info().groups == 0, LONG_S, "all is handled")
    consume.signal()
    assert consume.ended(LONG_S) == 0

    tickets = by_ticket(consume.lines(), log)
    source: defaultdict[str, list[int]] = defaultdict(list)
    for event in map(json.loads, log):
        source[event["case"]].append(event["n"])
    for name, lines in tickets.items():
        assert [line["body"]["n"] for line in lines] == source[name], f"{name} in the order of the log"
