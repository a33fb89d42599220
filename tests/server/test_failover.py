"""A server that loads its data, or becomes a replica, under clients that are at work: they wait for it, or say it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable

import pytest

from sequencer import Sequencer
from sequencer.errors import OutcomeUnknown, ServerUnavailable
from sequencer.testing import wait_until

from ..support.background import Background
from ..support.refused import refused
from .conftest import command

KEYS, KEY_DELAY_US = 500, 4000
"""What a server loads, and how long it takes over each key: two seconds in all."""


def restart_slowly(start_server: Callable[..., str], path: str) -> None:
    """Stop the server, and start one of the same data at the same place, which takes its time to load them."""
    command(path, "CONFIG", "SET", "rdbcompression", "no")
    command(path, "DEBUG", "POPULATE", str(KEYS), "filler", "1500", default=1)
    command(path, "SAVE")
    told = command(path, "INFO", "server")
    assert isinstance(told, bytes)
    os.kill(int(told.partition(b"process_id:")[2].split()[0]), signal.SIGKILL)
    slow = ("--key-load-delay", str(KEY_DELAY_US), "--loading-process-events-interval-bytes", "1024")
    os.replace(start_server(*slow), path)


def is_blocked(path: str) -> bool:
    """Whether a client waits within a command: a consumer for work, or an append for replicas."""
    told = command(path, "INFO", "clients")
    assert isinstance(told, bytes)
    return b"blocked_clients:0" not in told


@pytest.fixture
def path(start_server: Callable[..., str]) -> str:
    return start_server("--enable-debug-command", "yes")


def test_an_append_while_the_server_loads_is_refused_until_it_has(start_server: Callable[..., str], path: str) -> None:
    said: list[str] = []
    with Sequencer("q", f"unix://{path}") as seq:
        seq.append(1, "g", id="a")
        restart_slowly(start_server, path)

        def is_appended() -> bool:
            try:
                return not seq.append(2, "g", id="b").duplicate
            except (ServerUnavailable, OutcomeUnknown) as error:  # unknown: sent on the connection that had gone
                said.append(error.code)
                return False

        wait_until(is_appended)
        assert "is_loading" in said
        assert [message.id for message in seq.peek("g")] == ["a", "b"]


def test_a_consumer_waits_until_the_server_has_loaded(
    start_server: Callable[..., str], path: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    with Sequencer("q", f"unix://{path}") as seq, Sequencer("q", f"unix://{path}") as other:
        seq.append(1, "g", id="a")
        with caplog.at_level(logging.DEBUG, "sequencer"), Background(seq, lambda message: seen.append(message.id)):
            wait_until(lambda: seen == ["a"] and is_blocked(path))
            restart_slowly(start_server, path)
            wait_until(lambda: "is loading its data; try again" in caplog.text)
            command(path, "PING")
            other.append(2, "g", id="b")
            wait_until(lambda: seen == ["a", "b"])


def test_an_idle_consumer_outlives_the_demotion_of_its_server(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "sequencer")
    seen: list[str] = []
    with Sequencer("q", f"unix://{path}") as seq, Background(seq, lambda message: seen.append(message.id)):
        wait_until(lambda: is_blocked(path))
        command(path, "REPLICAOF", "127.0.0.1", "1")
        wait_until(lambda: "connect to the primary" in caplog.text)
        command(path, "REPLICAOF", "NO", "ONE")
        with Sequencer("q", f"unix://{path}") as other:
            other.append(1, "g", id="a")
        wait_until(lambda: seen == ["a"])


def test_an_append_whose_server_is_demoted_while_it_waits_is_an_unknown_outcome(path: str) -> None:
    """The message is lost when the old primary follows the new one: it must not pass for stored."""

    def demote() -> None:
        wait_until(lambda: is_blocked(path))
        command(path, "REPLICAOF", "127.0.0.1", "1")

    with Sequencer("q", f"unix://{path}", wait_replicas=1, wait_timeout=4.0) as seq:
        seq.connect()
        thread = threading.Thread(target=demote)
        thread.start()
        try:
            with refused(OutcomeUnknown, "append_unknown", id="a"):
                seq.append(1, "g", id="a")
        finally:
            thread.join(10)
