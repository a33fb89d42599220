"""What all handlers need goes away under real consumers of two services: nothing is parked, and all goes on by itself.

    SEQUENCER_TEST_OUTAGE_S=90 .venv/bin/pytest -s tests/process/test_outage.py -k goes_away

keeps it away for 90 s, and prints the figures.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from sequencer import Sequencer
from sequencer.testing import wait_until

if TYPE_CHECKING:
    from .conftest import Cli

LASTS_S = float(os.environ.get("SEQUENCER_TEST_OUTAGE_S", "0"))
GROUPS, PATIENCE_S = 1000, 60.0
APP = '''"""Asks a bank for each message, and writes down what became of it."""

import json, os, socket, time

from sequencer import Sequencer

options = json.loads(os.environ["OPTIONS"])
seq = Sequencer("jobs", namespace=os.environ["SEQUENCER_NAMESPACE"], **options)


def note(what, message):
    line = {"what": what, "at": time.monotonic(), "group": message.group[0], "attempt": message.attempt}
    with open("calls.ndjson", "ab", buffering=0) as calls:
        calls.write(json.dumps({**line, "sent": message.body}).encode() + b"\\n")


@seq.handler
def handle(message):
    try:
        if message.group == ("bad",):
            raise ConnectionError("its own bank is closed")
        with socket.create_connection(("127.0.0.1", int(os.environ["BANK"])), 5.0) as bank:
            if bank.recv(1) != b"y":
                raise ConnectionError("the bank hung up")
    except OSError:
        note("failed", message)
        raise
    note("handled", message)
'''


class Bank:
    """A server that says yes to everyone, while it is open."""

    def __init__(self) -> None:
        self._listener: socket.socket | None = None
        self.port = 0
        self.open()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=256, reuse_port=False)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        if self._listener:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accept
            self._listener.close()
        self._listener = None

    @staticmethod
    def _serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                caller, _ = listener.accept()
                with caller, suppress(OSError):
                    caller.send(b"y")


class Producer:
    """Appends a message of the next group, over and over, until it is told to stop; its body is the time."""

    def __init__(self, seq: Sequencer, groups: int, each_s: float) -> None:
        self._seq, self._groups, self._each_s = seq, groups, each_s
        self._stop = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._produce)
        self._thread.start()

    def _produce(self) -> None:
        while not self._stop.wait(self._each_s):
            self._seq.append(time.monotonic(), group=f"g{self.count % self._groups}")
            self.count += 1

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def bank() -> Iterator[Bank]:
    one = Bank()
    yield one
    one.close()


@pytest.fixture
def produce(seq: Sequencer) -> Iterator[Callable[..., Producer]]:
    made: list[Producer] = []

    def start(groups: int, each_s: float) -> Producer:
        made.append(Producer(seq, groups, each_s))
        return made[-1]

    yield start
    for one in made:
        one.end()


class Service:
    """Consumers of the app, and what their handlers wrote down."""

    def __init__(self, cli: Cli, bank: Bank, **options: Any) -> None:
        (cli.directory / "shop.py").write_text(APP)
        self.cli, self.environment = cli, {"BANK": str(bank.port), "OPTIONS": json.dumps(options)}
        self.calls_file = cli.directory / "calls.ndjson"
        self.running = [self.start(2), self.start(2)]

    def start(self, processes: int) -> Any:
        return self.cli.start("consume", "jobs", "--app", "shop:seq", "-n", processes, **self.environment)

    def calls(self, what: str) -> list[dict[str, Any]]:
        text = self.calls_file.read_text() if self.calls_file.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["what"] == what]

    def said(self) -> str:
        return "".join(one.stderr for one in self.running)

    def stop(self) -> None:
        for one in self.running:
            one.signal()
        for one in self.running:
            one.ended()


@pytest.mark.slow
def test_a_dependency_that_goes_away_parks_nothing_and_all_goes_on_by_itself(
    cli: Cli, bank: Bank, seq: Sequencer, produce: Callable[..., Producer]
) -> None:
    """1,000 groups, four consumers of two services, 200 messages a second."""
    seq.append_many({"group": f"g{number}", "body": time.monotonic()} for number in range(GROUPS))
    service, producer = Service(cli, bank), produce(GROUPS, 0.005)
    wait_until(lambda: len(service.calls("handled")) > GROUPS, PATIENCE_S, "all work")

    bank.close()
    away_at = time.monotonic()
    wait_until(lambda: seq.info().outage, PATIENCE_S, "the outage")
    wait_until(
        lambda: time.monotonic() - away_at >= LASTS_S and (found := seq.info().outage) and found.probes >= 3,
        LASTS_S + PATIENCE_S,
        "three probes",
    )
    found = seq.info()
    assert found.parked == 0
    assert found.outage
    assert "Connection" in found.outage.error
    bank.open()
    back_at = time.monotonic()

    wait_until(lambda: any(one["at"] > back_at for one in service.calls("handled")), PATIENCE_S, "one is handled")
    producer.end()
    wait_until(lambda: seq.info().groups == 0, PATIENCE_S, "all are handled")
    service.stop()
    handled, failed, info = service.calls("handled"), service.calls("failed"), seq.info()
    went_on_s = min(one["at"] for one in handled if one["at"] > back_at) - back_at
    print(f"away {back_at - away_at:.1f} s: {len(failed)} calls to it, {info.parked} parked, went on {went_on_s:.2f} s")
    assert went_on_s < 6.0
    assert len(handled) == GROUPS + producer.count, "each once"
    assert {one["attempt"] for one in handled} == {1}, "no attempt is lost"
    assert (info.parked, info.dead, info.totals["outages"]) == (0, 0, 1)
    # Probes, five that opened it, and as many more as were acknowledged late, of what had been handled before.
    assert len(failed) <= 40 + (back_at - away_at) / 5
    assert service.said().count("outage began") == service.said().count("outage ended") == 1


def test_one_bad_group_is_parked_by_policy_and_holds_nobody(
    cli: Cli, bank: Bank, seq: Sequencer, produce: Callable[..., Producer]
) -> None:
    """Its ninth outage in a row is the last that counts no attempt."""
    seq.append("body", group="bad")
    service, producer = Service(cli, bank, backoff=0.05, backoff_cap=0.2, max_attempts=3), produce(10, 0.02)
    wait_until(lambda: seq.info().parked, PATIENCE_S, "it is parked")
    producer.end()
    wait_until(lambda: seq.info().groups == 1, PATIENCE_S, "the others are handled")
    service.stop()
    assert [one["attempt"] for one in service.calls("failed")] == [1] * 10 + [2, 3]
    (parked,) = seq.parked()
    assert parked.group == ("bad",)
    assert parked.failure
    assert (parked.failure.type, parked.failure.outages) == ("ConnectionError", 12)
    assert seq.info().totals["outages"] == 0
    assert "outage began" not in service.said()
    assert "sequencer resume jobs bad" in service.said()
    handled = service.calls("handled")
    started_at = min(one["at"] for one in handled) + 1.0
    assert max(one["at"] - one["sent"] for one in handled if one["sent"] > started_at) < 3.0


@pytest.mark.nightly
@pytest.mark.slow
def test_a_person_has_it_probed_at_once(cli: Cli, bank: Bank, seq: Sequencer) -> None:
    seq.append_many({"group": f"g{number}", "body": time.monotonic()} for number in range(20))
    assert cli.run("resume", "jobs", "--outage").stdout == "queue jobs is not held back by an outage; nothing to do\n"
    bank.close()
    service = Service(cli, bank)
    wait_until(lambda: (found := seq.info().outage) and found.probes >= 3, PATIENCE_S, "the outage")
    told = cli.run("info", "jobs").stdout
    assert "jobs: outage since 20" in told
    assert "next probe in " in told
    assert told.rstrip().endswith(f"sequencer resume jobs --outage --namespace {seq.options.namespace}")
    group = seq.groups()[0].group[0]
    explained = cli.run("explain", "jobs", group).stdout
    assert "for the end of an outage" in explained
    fix = f"sequencer resume jobs --outage --namespace {seq.options.namespace}"
    assert explained.rstrip().endswith(f"; probe: {fix}")
    done = cli.run("resume", "jobs", "--outage", "--json")
    # The dependency is still away: one that is back may end the outage before the command has begun.
    assert json.loads(done.stdout) == {"queue": "jobs", "probing": True}
    bank.open()
    wait_until(lambda: seq.info().groups == 0, PATIENCE_S, "all are handled")
    assert cli.run("resume", "jobs", "--outage", "g1").returncode == 2
    assert cli.run("resume", "jobs").returncode == 2
    service.stop()
