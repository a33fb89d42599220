"""A connection that the server closed while it was idle is replaced, whatever it is used for next."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sequencer import Sequencer
from sequencer.errors import OutcomeUnknown, ServerUnavailable
from sequencer.net import link as link_module
from sequencer.net.link import CHECK_EVERY_S, REFRESH_EVERY_S, Link
from sequencer.server import find_binary
from sequencer.testing import wait_until

from ..support.link_clock import stopped_clock


def close_idle(link: Link) -> None:
    """As the server does with `timeout`."""
    link.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.mark.parametrize(
    "later_s", [0.0, CHECK_EVERY_S + 1, REFRESH_EVERY_S + 1], ids=["soon", "at a check", "at a look"]
)
@pytest.mark.parametrize(
    "use",
    [
        Sequencer.info,
        lambda seq: seq.append("y", group="b"),
        lambda seq: seq.append_many([{"body": "y", "group": "b"}]),
        lambda seq: seq.pause(["a"]),
        lambda seq: seq.claim().release(),
    ],
    ids=["info", "append", "append_many", "pause", "claim"],
)
def test_a_connection_that_was_closed_meanwhile_is_replaced(
    seq: Sequencer, link: Link, monkeypatch: pytest.MonkeyPatch, use: Callable[[Sequencer], Any], later_s: float
) -> None:
    clock = stopped_clock(monkeypatch)
    monkeypatch.setattr(link_module, "RECENT_S", -1.0)
    seq.append("x", group="a")
    use(seq)
    close_idle(link)
    clock.now += later_s
    use(seq)


def is_up(seq: Sequencer) -> bool:
    with suppress(ServerUnavailable):
        seq.connect()
        return True
    return False


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_socket_timeout_is_the_time_of_all_repeats(tmp_path: Path, is_connected: bool) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [find_binary(), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        url = f"redis://127.0.0.1:{port}/0"
        with Sequencer("q", url) as first:
            wait_until(lambda: is_up(first), what="the server listens")
        with Sequencer("q", f"{url}?socket_timeout=0.5") as seq:
            if is_connected:
                seq.append(1, group="g")
            process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            with pytest.raises((ServerUnavailable, OutcomeUnknown)):
                seq.append(2, group="g")
            assert 0.4 < time.monotonic() - began < 0.9
            process.send_signal(signal.SIGCONT)
            wait_until(lambda: seq.append(3, group="g").outcome == "stored")
    finally:
        process.kill()
        process.wait()
