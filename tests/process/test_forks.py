"""What an application forks is no consumer: it has the signals of a plain script, and comes back to nothing of ours."""

from __future__ import annotations

import json
import os
import signal

import pytest

from sequencer import InlineSteps, Message, Sequencer
from sequencer.errors import ConfigurationError
from sequencer.testing import wait_until

from .conftest import Cli, Work

FORKS = '''"""A handler whose children get each signal at once, before they can do anything."""

import os, signal, threading, time

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


def end_child(number):
    child = os.fork()
    if not child:
        time.sleep(20)
        os._exit(1)
    os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_main(message):
    ends = [end_child(number) for number in SIGNALS]
    if not (child := os.fork()):
        os._exit(77 if signal.getsignal(signal.SIGINT) is signal.default_int_handler else 1)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    open("ends", "w").write(repr(ends))


def in_thread(message):
    thread = threading.Thread(target=in_main, args=(message,))
    thread.start()
    thread.join()
'''
AT_IMPORT = """
import os

if child := os.fork():
    os.waitpid(child, 0)


def handle(message): ...
"""


@pytest.mark.parametrize("handler", ["in_main", pytest.param("in_thread", marks=pytest.mark.nightly)])
def test_a_forked_child_of_a_consumer_has_the_signals_of_a_plain_script(cli: Cli, work: Work, handler: str) -> None:
    (cli.directory / "forks.py").write_text(FORKS)
    work.add("a", {})
    done = cli.run("consume", "jobs", "--app", f"forks:{handler}", "--until-empty", timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads((cli.directory / "ends").read_text()) == [-15, -1, -12, 77]


@pytest.mark.nightly
def test_a_forked_child_of_a_program_that_consumes_has_the_signals_of_that_program(seq: Sequencer) -> None:
    seq.append(1, group="g")
    found = list[int]()

    def own(_number: int, _frame: object) -> None: ...

    def handler(_message: Message) -> None:
        assert signal.getsignal(signal.SIGTERM) is not own
        if (child := os.fork()) == 0:
            os._exit(0 if signal.getsignal(signal.SIGTERM) is own else 1)
        found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    before = signal.signal(signal.SIGTERM, own)
    try:
        seq.consume(handler, until_empty=True)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert found == [0]


def test_a_forked_child_runs_no_steps(seq: Sequencer) -> None:
    """They would go over its parent's connection."""
    found = list[int]()

    @seq.handler
    def handler(_message: Message, steps: InlineSteps) -> None:
        if (child := os.fork()) == 0:
            try:
                steps.run("charge", lambda: os._exit(1))
            except ConfigurationError:
                os._exit(0)
        found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    seq.append(1, group="g")
    seq.consume(until_empty=True)
    assert found == [0]


def test_the_copy_of_an_application_that_forks_when_it_is_imported_ends(cli: Cli, work: Work) -> None:
    """Who imports it waits for its copy, which would consume for ever."""
    (cli.directory / "forks.py").write_text(AT_IMPORT)
    work.add("a", {})
    consume = cli.start("consume", "jobs", "--app", "forks:handle")
    wait_until(lambda: work.states() == {}, 60.0, "handled")
    consume.stop()
