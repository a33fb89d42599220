"""SIGINT and SIGTERM, once, twice and thrice: to `sequencer consume`, and to a program that calls `consume()`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

import pytest

from sequencer.testing import wait_until

from ..support.run_scene import PATIENCE_S
from .conftest import Cli, Running, Work

LEASE_S = 20
COMMAND = ("consume", "jobs", "--app", "shop:handle", "--lease", LEASE_S)
PROGRAM = f"""
import logging, os
from shop import handle
from sequencer import Sequencer

logging.basicConfig(level=logging.INFO)
with Sequencer("jobs", namespace=os.environ["SEQUENCER_NAMESPACE"]) as queue:
    print(queue.consume(handle, lease={LEASE_S}))
"""


def start(kind: str, cli: Cli) -> Running:
    return cli.start(*COMMAND) if kind == "command" else cli.script(PROGRAM)


@pytest.mark.parametrize(
    ("kind", "number"), [("command", signal.SIGINT), ("command", signal.SIGTERM), ("program", signal.SIGINT)]
)
def test_the_first_signal_finishes_the_message_in_hand_and_begins_nothing(
    cli: Cli, work: Work, kind: str, number: signal.Signals
) -> None:
    work.add("a", {}, {}, {"gate": "gate"}, {}, {})
    running = start(kind, cli)
    work.wait_begun("a-2")
    work.add("b", {}, {})
    running.signal(number)
    running.wait_for("signal again to abort")
    assert work.events("begun", "b-0") == []
    assert work.states() == {"a": "leased", "b": "due"}
    cli.open("gate")

    assert running.ended() == 0
    assert work.states() == {"a": "due", "b": "due"}, "released, not left to the lease"
    assert work.head("a") == ("a-3", 1), "what ran is acknowledged"
    assert [event["id"] for event in work.events("begun")] == ["a-0", "a-1", "a-2"]
    if kind == "program":
        assert running.stdout == "ConsumeSummary(reason='stopped', handled=3, failed=0, lost=0)\n"
    else:
        assert "consumed 3 messages" in running.stderr
        assert ": no failures" in running.stderr


@pytest.mark.parametrize(("kind", "number"), [("command", signal.SIGINT), ("program", signal.SIGTERM)])
def test_the_second_signal_interrupts_the_handler_and_releases_its_group(
    cli: Cli, work: Work, kind: str, number: signal.Signals
) -> None:
    work.add("a", {}, {"gate": "never"}, {})
    running = start(kind, cli)
    work.wait_begun("a-1")
    running.signal(number)
    running.wait_for("signal again to abort")
    running.signal(number)
    assert running.ended() == 0
    assert "signal again to abort" in running.stderr
    assert "Traceback" not in running.stderr
    assert work.states() == {"a": "due"}, "released, not left to the lease"
    assert work.head("a") == ("a-1", 1), "an interrupted message counts as not started"
    assert work.events("handled", "a-1") == []
    if kind == "command":
        assert "signal again to kill" in running.stderr


@pytest.mark.nightly
def test_a_consumer_that_has_no_processor_meanwhile_is_told_of_both_signals(cli: Cli, work: Work) -> None:
    """Two signals of the same number that wait for a process are one; found on a machine that was busy."""
    work.add("a", {"gate": "never"})
    running = start("command", cli)
    work.wait_begun("a-0")
    (consumer,) = running.consumers()
    os.kill(consumer, signal.SIGSTOP)
    running.signal(signal.SIGINT)
    running.wait_for("signal again to abort")
    running.signal(signal.SIGINT)
    running.wait_for("signal again to kill")
    os.kill(consumer, signal.SIGCONT)
    assert running.ended() == 0
    assert "Traceback" not in running.stderr
    assert work.states() == {"a": "due"}, "released, not left to the lease"


def test_the_third_signal_kills_and_leaves_the_group_to_its_lease(cli: Cli, work: Work) -> None:
    work.add("a", {"stubborn": True})
    consume = start("command", cli)
    work.wait_begun("a-0")
    consume.signal()
    consume.wait_for("signal again to abort")
    consume.signal()
    consume.wait_for("signal again to kill")
    wait_until(lambda: work.events("swallowed", "a-0"), PATIENCE_S, "the handler swallows the interruption")
    consume.stop()
    assert "current messages wait for their leases to expire" in consume.stderr
    assert cli.left() == []
    assert work.states() == {"a": "leased"}


def test_a_consumer_that_is_stopped_while_it_starts_did_not_die(cli: Cli) -> None:
    consume = cli.start(*COMMAND, "-n", 2)
    wait_until(lambda: len(consume.consumers()) == 2, PATIENCE_S)
    consume.stop()
    assert ": no failures" in consume.stderr


def test_a_command_for_each_message_is_killed_with_its_consumer_at_the_second_signal(cli: Cli, work: Work) -> None:
    work.add("a", {})
    consume = cli.start("consume", "jobs", "--exec", "echo $$ > begun; while :; do sleep 60; done", "--lease", LEASE_S)
    begun = cli.directory / "begun"
    wait_until(lambda: begun.exists() and begun.read_text().strip(), PATIENCE_S, "the command runs")
    assert int(begun.read_text()) in cli.left()
    consume.signal()
    consume.wait_for("signal again to abort")
    consume.stop()
    wait_until(lambda: cli.left() == [], PATIENCE_S, "the command is gone, and what it started")
    assert work.states() == {"a": "due"}
    assert work.head("a") == ("a-0", 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_behind_the_end_does_not_change_the_exit_status(cli: Cli, work: Work, number: signal.Signals) -> None:
    """The interpreter takes 0.2 s and more to end, with the signals' default actions."""
    work.add("a", {})
    consume = cli.start("consume", "jobs", "--app", "shop:handle")
    work.wait_handled("a-0")
    consume.signal(number)
    consume.wait_for("consumed 1 message")

    def has_ended() -> bool:
        if consume.process.poll() is None:
            consume.signal(number)
        return consume.process.poll() is not None

    wait_until(has_ended, PATIENCE_S)
    assert consume.ended() == 0


STORM = 30
"""More failures than are written in a second: what counts the rest is written by the control thread, a second later."""


def fill(writer: int) -> None:
    """Fill a pipe by a description of our own: blocking stays as it is for others."""
    fd = os.open(f"/proc/self/fd/{writer}", os.O_WRONLY | os.O_NONBLOCK)
    for size in (4096, 1):
        with suppress(BlockingIOError):
            while os.write(fd, b"-" * size):
                pass
    os.close(fd)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="a pipe is opened anew by its name")
@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGKILL])
def test_a_stop_is_heard_where_nobody_reads_the_log(cli: Cli, work: Work, number: signal.Signals) -> None:
    for n in range(STORM):
        work.add(f"f{n:02}", {"fail": "x"})
    reader, writer = os.pipe()
    words = [cli.program, "consume", "jobs", "--app", "shop:handle", "--grace", "1", "--backoff", "60"]
    consume = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, cwd=cli.directory, env=cli.environment
    )
    try:
        wait_until(lambda: len(work.events("begun")) == STORM, PATIENCE_S)
        work.add("a", {"gate": "gate"})
        work.add("b", {})
        work.wait_begun("a-0")
        fill(writer)
        later = time.monotonic() + 2.5  # the control thread has something to say meanwhile
        wait_until(lambda: time.monotonic() > later, PATIENCE_S)
        pid = work.events("begun")[0]["pid"]
        consume.send_signal(number)
        stopped = time.monotonic() + 0.5
        wait_until(lambda: time.monotonic() > stopped, PATIENCE_S)
        cli.open("gate")
        wait_until(lambda: pid not in cli.left(), PATIENCE_S, "the end of the consumer")
        assert work.events("begun", "b-0") == []
        assert work.states()["b"] == "due"
        assert number == signal.SIGKILL or consume.wait(PATIENCE_S) == 0
    finally:
        consume.kill()
        consume.wait()
        os.close(reader)
        os.close(writer)
