"""Consumer processes with many worker slots: killed, stopped, and limited by their supervisor."""

from __future__ import annotations

import os
import signal

import pytest

from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S, RunScene
from .conftest import Cli, Work

LEASE_S = 1.5
COROUTINES = """
import asyncio, os, signal
import shop

async def handle(message):
    if "kills" in message.body:
        os.kill(os.getpid(), signal.SIGKILL)
    for name in ("seconds", "gate"):
        if name in message.body:
            shop.note("waits", message)
            while name == "seconds" or not shop.os.path.exists(message.body[name]):
                await asyncio.sleep(message.body.pop("seconds", 0.01))
                if name == "seconds":
                    break
    shop.handle(message)
"""
KINDS = pytest.mark.parametrize("app", ["shop:handle", "coroutines:handle"])


@pytest.fixture(autouse=True)
def _coroutines(cli: Cli) -> None:
    (cli.directory / "coroutines.py").write_text(COROUTINES)


def consume(app: str, *more: object) -> tuple[object, ...]:
    return ("consume", "jobs", "--app", app, "--lease", LEASE_S, "--concurrency", 16, *more)


@KINDS
def test_killed_processes_lose_nothing(cli: Cli, work: Work, app: str) -> None:
    for n in range(32):
        work.add(f"g{n}", *[{"seconds": 0.02}] * 20)
    running = cli.start(*consume(app, "-n", 2))
    for count in (50, 200, 350):
        wait_until(lambda count=count: len(work.events("handled")) > count, PATIENCE_S)  # type: ignore[misc]
        os.kill(work.events("handled")[-1]["pid"], signal.SIGKILL)
    wait_until(lambda: not work.states(), PATIENCE_S, "all is handled")
    running.stop()
    assert running.stderr.count("(signal SIGKILL)") >= 1
    assert "parked" not in running.stderr
    verdict = work.verdict()
    assert verdict.is_clean(allowed_duplicates=verdict.duplicates), verdict


def test_a_message_that_kills_is_parked_and_no_other(cli: Cli, work: Work) -> None:
    """Each death takes the messages of fifteen other slots along."""
    work.add("killer", {"kills": True})
    for n in range(60):
        work.add(f"g{n}", *[{"seconds": 0.05}] * 4)
    done = cli.run(*consume("coroutines:handle", "--max-attempts", 3, "--until-empty"), timeout=90.0)
    assert done.returncode == 4, done.stderr
    assert work.states() == {"killer": "parked"}
    assert len({event["id"] for event in work.events("handled")}) == 240


@KINDS
def test_a_handler_that_ignores_the_end_of_its_time_is_ended_with_its_process(cli: Cli, work: Work, app: str) -> None:
    work.add("a", {"stubborn": 1})
    work.add("b", {})
    running = cli.start(*consume(app, "--handler-timeout", 0.3, "--max-attempts", 1))
    work.wait_handled("b-0")
    wait_until(lambda: "parked" in work.states().values(), PATIENCE_S, "its end counted as an attempt")
    running.signal()
    running.ended()
    assert "killing its consumer" in running.stderr


def test_a_queue_of_a_file_has_it(cli: Cli, scene: RunScene) -> None:
    scene.write_file(orders="n = 1; concurrency = 8; app = 'coroutines:handle'")
    running = cli.start("run")
    scene.append("orders", [{"gate": "open"}] * 8)
    wait_until(lambda: len(scene.events("orders", "waits")) == 8, PATIENCE_S, "all at once")
    cli.open("open")
    wait_until(lambda: len(scene.ids("orders")) == 8, PATIENCE_S)
    running.stop()


def test_commands_are_handled_one_at_a_time(cli: Cli) -> None:
    assert cli.call("consume", "jobs", "--exec", "true", "--concurrency", 2).returncode == 2
