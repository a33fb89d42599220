"""Handlers that take too long, and applications that hang while they are imported: seen, limited, and counted."""

from __future__ import annotations

import re
import signal

import pytest

from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S, RunScene
from .conftest import Cli, Work

HANGS = "import os, time\nopen(f'importing-{os.getpid()}', 'x').close()\ntime.sleep(600)\n"
HOLDS = "import ctypes, os\nopen(f'importing-{os.getpid()}', 'x').close()\nctypes.PyDLL(None).sleep(600)\n"
"""In code in C that keeps the interpreter's lock, so that no thread runs."""


def importing(cli: Cli) -> int:
    """How many consumers have begun to import the application."""
    return len(list(cli.directory.glob("importing-*")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_is_not_connected_ends_with_its_master(cli: Cli, scene: RunScene, number: int) -> None:
    (cli.directory / "hangs.py").write_text(HANGS)
    scene.write_file(orders="n = 2; app = 'hangs:seq'")
    running = cli.start("run")
    wait_until(lambda: importing(cli) == 2, PATIENCE_S, "both hang")
    running.signal(number)
    assert running.ended() == (0 if number == signal.SIGTERM else -number)
    wait_until(lambda: not cli.left(), 5.0, "no orphan")
    assert "dead consumer" not in running.stderr


@pytest.mark.nightly
def test_who_holds_the_interpreters_lock_outlives_its_master_by_the_start_timeout_at_most(
    cli: Cli, scene: RunScene
) -> None:
    (cli.directory / "holds.py").write_text(HOLDS)
    scene.write_file(orders="n = 1; app = 'holds:seq'; start_timeout = '5s'")
    running = cli.start("run")
    wait_until(lambda: importing(cli) == 1, PATIENCE_S, "it hangs")
    running.signal(signal.SIGKILL)
    wait_until(lambda: not cli.left(), PATIENCE_S, "it is gone")
    assert "holds.py" in running.stderr, "where it hung"


def test_a_reload_that_a_newer_one_replaces_leaves_no_process(cli: Cli, scene: RunScene) -> None:
    (cli.directory / "hangs.py").write_text(HANGS)
    scene.write_file(orders="n = 1")
    running = cli.start("run")
    scene.append("orders", [{}])
    scene.wait_handled("orders", 1)
    scene.write_file(orders="n = 1; app = 'hangs:orders'")
    for count in range(1, 5):
        running.signal(signal.SIGHUP)
        wait_until(lambda count=count: importing(cli) == count, PATIENCE_S, "it is tried")  # type: ignore[misc]
    wait_until(lambda: len(running.consumers()) == 2, 5.0, "the old one, and the last trial")
    running.stop()


@pytest.mark.usefixtures("here")
def test_a_consumer_that_does_not_start_in_time_counts_as_dead(
    cli: Cli, scene: RunScene, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever keeps it, so that it can't end itself; it is killed after a stop too."""
    (cli.directory / "holds.py").write_text(HOLDS)
    scene.write_file(orders="n = 1; app = 'holds:seq'; start_timeout = '3s'", mails="n = 1")
    with scene.master() as master:
        orders, mails = master.pools
        wait_until(lambda: orders.state == "starting", PATIENCE_S, "it hangs")
        wait_until(lambda: mails.state == "running", PATIENCE_S, "the others work")
        wait_until(lambda: orders.is_down, PATIENCE_S, "it is killed twice, and the pool is down")
    told = [(record.event, record.queue) for record in caplog.records if hasattr(record, "event")]  # type: ignore[attr-defined]
    assert told.count(("consumer killed", "orders")) == 2
    assert (orders.totals.killed, orders.totals.started) == (2, 2)


def test_consume_limits_the_start_too(cli: Cli) -> None:
    """The command itself imports the app, to read its queue."""
    (cli.directory / "hangs.py").write_text(HANGS)
    done = cli.run("consume", "jobs", "--app", "hangs:seq", "--start-timeout", "1")
    assert done.returncode == 2
    assert "start_timeout" in done.stderr


SLOW = '''"""Handlers that do not end."""

import ctypes, os, time

from sequencer import Sequencer


def ignores(message):
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass


def waits_in_c(message):
    """It lets other threads run, and comes back to no signal."""
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(256)
    libc.pthread_mutex_init(mutex, None)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)  # nobody unlocks it


def keeps_the_lock(message):
    ctypes.PyDLL(None).sleep(600)


by_handler, by_step = (Sequencer("jobs", namespace=os.environ["SEQUENCER_NAMESPACE"]) for _ in range(2))
by_handler.handler(timeout=0.5)(keeps_the_lock)
by_step.step(timeout=0.5)(keeps_the_lock)
'''


@pytest.fixture
def slow(cli: Cli, work: Work) -> Work:
    (cli.directory / "slow.py").write_text(SLOW)
    work.add("a", {})
    return work


@pytest.mark.slow
@pytest.mark.parametrize("handler", ["ignores", pytest.param("waits_in_c", marks=pytest.mark.nightly)])
def test_a_consumer_whose_handler_goes_on_is_killed_and_that_counts(cli: Cli, slow: Work, handler: str) -> None:
    slow.add("b", {})  # what else it claimed is not blamed
    words = ["--handler-timeout", "0.5", "--lease", "2", "--max-attempts", "1", "--until-empty"]
    done = cli.run("consume", "jobs", "--app", f"slow:{handler}", *words, timeout=60.0)
    assert done.returncode == 4, done.stderr
    assert len(re.findall(r"handler stuck: group=\w id=\w-0 ", done.stderr)) == 2
    killed = re.findall(
        r"consumer killed: pid \d+, because its handler ignored .*; last message started: group=(\w)", done.stderr
    )
    assert sorted(killed) == ["a", "b"], "each was tried once, as --max-attempts says"
    assert "kill -KILL" not in done.stderr, "the service does that"
    assert "groups parked 2 times, 2 killed consumers" in done.stderr


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("keeps_the_lock", ["--handler-timeout", "0.5"]),
        ("by_handler", []),
        ("by_step", []),
        ("by_step", ["--concurrency", "2"]),
    ],
)
def test_a_consumer_that_gives_no_sign_of_life_is_killed_and_that_counts(
    cli: Cli, slow: Work, app: str, words: list[str]
) -> None:
    words = [*words, "--lease", "0.5", "--max-attempts", "1", "--until-empty"]
    done = cli.run("consume", "jobs", "--app", f"slow:{app}", *words, timeout=60.0)
    assert done.returncode == 4, done.stderr
    assert "consumer killed" in done.stderr
    assert slow.states() == {"a": "parked"}
