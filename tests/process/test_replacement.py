"""What a supervisor does about consumers that end: which of them it replaces, when, and when it does not."""

from __future__ import annotations

import logging
import os
import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from sequencer import EmbeddedServer
from sequencer.processes import pool as pool_module
from sequencer.processes import supervisor as supervisor_module
from sequencer.processes import workers
from sequencer.processes.consumer_process import ConsumerProcess
from sequencer.processes.pool import Pool
from sequencer.processes.supervisor import Supervisor
from sequencer.processes.worker.config import WorkerConfig
from sequencer.processes.worker.run import SERVER
from sequencer.processes.workers import LIMIT, STANDING_RETRY_S
from sequencer.settings.backoff import Backoff
from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from .conftest import Cli, Running, Work

FIRST = """
import os, sys
from shop import handle, wait_until

is_first = True
if sys.argv[0].endswith("worker/run.py"):
    open("imports", "a").write("x")
    try:
        open("first", "x")
    except FileExistsError:
        is_first = False
        wait_until(lambda: os.path.exists("later"), 60)
"""
"""An application that a first consumer imports at once, others only when the gate `later` is open."""


def delays(running: Running) -> list[float]:
    """In how many seconds a consumer is started again, as it said."""
    found = re.findall(r"consumer restarting: in (\d+(?:\.\d+)?) (m?)s\b", running.stderr)
    return [float(text) / (1000 if thousandth else 1) for text, thousandth in found]


def test_when_one_consumer_can_not_work_the_others_are_stopped_and_not_replaced(cli: Cli, work: Work) -> None:
    """Each but the first finds the application broken."""
    (cli.directory / "worn.py").write_text(FIRST + "if not is_first:\n    raise ImportError('worn out')\n")
    work.add("a", {"gate": "gate"}, {})
    consume = cli.start("consume", "jobs", "--app", "worn:handle", "-n", 2)
    work.wait_begun("a-0")
    cli.open("later")
    consume.wait_for("worn out")
    cli.open("gate")
    assert consume.ended() == 2
    assert work.events("handled", "a-0"), "what runs is finished"
    assert (cli.directory / "imports").read_text() == "xx"
    assert "leased" not in work.states().values(), "released, not left to the lease"


@pytest.fixture
def config(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> WorkerConfig:
    """For a supervisor in this process, whose consumers find what those of the command would find."""
    monkeypatch.chdir(cli.directory)
    for name, value in cli.environment.items():
        monkeypatch.setenv(name, value)
    return WorkerConfig(queue="jobs", namespace=cli.environment["SEQUENCER_NAMESPACE"], app="shop:handle")


def test_it_is_ready_when_all_its_consumers_are_connected(cli: Cli, work: Work, config: WorkerConfig) -> None:
    (cli.directory / "slow.py").write_text(FIRST)
    pool = Pool(replace(config, app="slow:handle"), 2)
    supervisor = Supervisor([pool])
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        work.add("a", {})
        work.wait_handled("a-0")
        assert not pool.is_ready, "one is, the other still imports its application"
        cli.open("later")
        wait_until(lambda: pool.is_ready, PATIENCE_S)
    finally:
        cli.open("later")
        supervisor.stop()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_what_a_consumer_said_before_its_end_is_known_when_it_is_found_ended(
    config: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may say so, and end, after the last look at the reports."""
    look = vars(ConsumerProcess)["returncode"].fget

    def once_it_has_ended(process: ConsumerProcess) -> Any:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return look(process)

    monkeypatch.setattr(ConsumerProcess, "returncode", property(once_it_has_ended))
    pool = Pool(replace(config, until_empty=True), 1)
    assert Supervisor([pool]).run() == 0
    assert (pool.totals.started, pool.totals.died) == (1, 0)


def test_a_place_in_which_no_consumer_gets_to_work_does_not_end_what_others_do(
    cli: Cli, work: Work, config: WorkerConfig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "RESTART", Backoff(base_s=0.01, cap_s=0.01))
    caplog.set_level(logging.INFO, "sequencer.supervisor")
    (cli.directory / "broken.py").write_text(FIRST + "if not is_first:\n    os._exit(7)\n")
    cli.open("later")
    supervisor = Supervisor([Pool(replace(config, app="broken:handle"), 2)])
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        wait_until(lambda: is_tried_seldom(caplog), PATIENCE_S, "the second place is tried seldom")
        work.add("a", {})
        work.wait_handled("a-0")
    finally:
        supervisor.stop()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


def is_tried_seldom(caplog: pytest.LogCaptureFixture) -> bool:
    return any(getattr(record, "retry_in_s", 0) == STANDING_RETRY_S for record in caplog.records)


def test_a_server_that_consumers_can_not_use_is_told_from_consumers_that_die(
    config: WorkerConfig, server: EmbeddedServer
) -> None:
    wrong = replace(config, app=None, url=f"unix://nobody:wrong@{server.socket}")
    assert Supervisor([Pool(wrong, 1)]).run() == SERVER


def test_a_supervisor_that_can_not_go_on_leaves_consumers_that_stop_by_themselves(
    cli: Cli, work: Work, config: WorkerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = Supervisor([Pool(config, 1)])
    processes: list[ConsumerProcess] = []

    def look(process: ConsumerProcess) -> int | None:
        processes.append(process)
        work.wait_begun("a-0")
        raise LookupError("odd")

    work.add("a", {"gate": "gate"}, {})
    with monkeypatch.context() as odd:
        odd.setattr(supervisor_module, "MAX_FAILED_ROUNDS", 3)
        odd.setattr(ConsumerProcess, "returncode", property(look))
        assert supervisor.run() == 1
    assert [processes[0].pid] == cli.left(), "it is not killed in the middle of its message"
    cli.open("gate")
    wait_until(lambda: processes[0].returncode is not None, PATIENCE_S, "it stops")
    assert work.events("handled", "a-0")
    assert "leased" not in work.states().values(), "released, not left to the lease"


def test_consumers_that_can_not_be_started_end_no_service(
    work: Work, config: WorkerConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No more processes, or an interpreter that is exchanged just now: more often than deaths are counted."""
    attempts: list[int] = []

    def start(*words: Any) -> ConsumerProcess:
        attempts.append(1)
        if len(attempts) <= 2 * LIMIT:
            raise OSError(11, "Resource temporarily unavailable")
        return ConsumerProcess(*words)

    monkeypatch.setattr(pool_module, "ConsumerProcess", start)
    work.add("a", {})
    monkeypatch.setattr(workers, "RESTART", Backoff(base_s=0.01, cap_s=0.02))
    assert Supervisor([Pool(replace(config, until_empty=True), 1)]).run() == 0
    assert work.events("handled", "a-0")
    assert "BlockingIOError: [Errno 11]" in caplog.text
