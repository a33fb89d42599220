"""`sequencer consume --handler-timeout`: what happens to a handler that takes too long, and what is said of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Cli, Work

PATIENCE_S = 60.0
SLOW = '''"""Handlers that do not end."""

import ctypes, time


def sleeps(message):
    time.sleep(600)


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
'''


@pytest.fixture
def slow(cli: Cli, work: Work) -> Work:
    (cli.directory / "slow.py").write_text(SLOW)
    work.add("a", {})
    return work


def test_a_handler_that_waits_is_interrupted_and_its_group_parked(cli: Cli, slow: Work) -> None:
    words = ["--handler-timeout", "0.5", "--max-attempts", "2", "--backoff", "0.01", "--until-empty"]
    done = cli.run("consume", "jobs", "--app", "slow:sleeps", *words, timeout=PATIENCE_S)
    assert done.returncode == 4, done.stderr
    assert len(re.findall(r"error=HandlerTimeout: it ran longer than 0\.5 s \(handler_timeout\)", done.stderr)) == 2
    assert "time.sleep(600)" in done.stderr, "where it was"
    assert "killed" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("handler", ["ignores", pytest.param("waits_in_c", marks=pytest.mark.nightly)])
def test_a_consumer_whose_handler_goes_on_is_killed_and_that_counts(cli: Cli, slow: Work, handler: str) -> None:
    slow.add("b", {})  # what else it claimed is not blamed
    words = ["--handler-timeout", "0.5", "--lease", "2", "--max-attempts", "1", "--until-empty"]
    done = cli.run("consume", "jobs", "--app", f"slow:{handler}", *words, timeout=PATIENCE_S)
    assert done.returncode == 4, done.stderr
    assert len(re.findall(r"handler stuck: group=\w id=\w-0 ", done.stderr)) == 2
    killed = re.findall(
        r"consumer killed: pid \d+, because its handler ignored .*; last message begun: group=(\w)", done.stderr
    )
    assert sorted(killed) == ["a", "b"], "each was tried once, as --max-attempts says"
    assert "kill -KILL" not in done.stderr, "the service does that"
    assert "groups parked 2 times, 2 killed consumers" in done.stderr


@pytest.mark.nightly
@pytest.mark.slow
def test_a_consumer_that_gives_no_sign_of_life_is_killed_and_that_counts(cli: Cli, slow: Work) -> None:
    words = ["--handler-timeout", "0.5", "--lease", "0.5", "--max-attempts", "1", "--until-empty"]
    done = cli.run("consume", "jobs", "--app", "slow:keeps_the_lock", *words, timeout=PATIENCE_S)
    assert done.returncode == 4, done.stderr
    assert "because it gave no sign of life for 5 s, as when code in C keeps the interpreter's lock" in done.stderr
    assert slow.states() == {"a": "parked"}


def test_a_limit_needs_something_that_it_limits(cli: Cli, slow: Work) -> None:
    done = cli.run("consume", "jobs", "--handler-timeout", "5", timeout=PATIENCE_S)
    assert done.returncode == 2
    assert "limits a handler or a command" in " ".join(done.stderr.split())
    done = cli.run("consume", "jobs", "--app", "slow:sleeps", "--handler-timeout", "0", timeout=PATIENCE_S)
    assert done.returncode == 2
    assert "handler_timeout" in done.stderr


def test_a_command_is_ended(cli: Cli, slow: Work) -> None:
    words = ["--handler-timeout", "0.5", "--max-attempts", "1", "--until-empty"]
    done = cli.run("consume", "jobs", "--exec", "echo at work >&2; sleep 600", *words, timeout=PATIENCE_S)
    assert done.returncode == 4, done.stderr
    assert "ran longer than 0.5 s (handler_timeout), and SIGTERM ended it: at work" in done.stderr
