"""`sequencer top`: what its keys do, on what was shown."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from sequencer import EmbeddedServer, Sequencer
from sequencer.cli.top import Top
from sequencer.testing import wait_until
from tests.support.handling import Make, fail


def park(seq: Sequencer, *groups: str) -> None:
    for group in groups:
        seq.append(group, group=group, id=f"{group}1")
        seq.append(group, group=group, id=f"{group}2")
    seq.consume(fail, until_empty=True)


def press(top: Top, *keys: str) -> None:
    for key in keys:
        assert top.press(key)


@pytest.fixture
def top(make: Make) -> Top:
    quiet, seq = make("quiet"), make(max_attempts=1)
    quiet.append(1, group="g")
    park(seq, "a", "b", "c")
    top = Top([quiet, seq])
    top.look()
    return top


def chosen(top: Top) -> str:
    assert top.group
    return top.group.group[0]


def test_the_worst_queue_stands_first_and_is_opened(top: Top, seq: Sequencer) -> None:
    assert [one.queue for one in top.infos] == ["jobs", "quiet"]
    press(top, "KEY_DOWN", "KEY_DOWN", "\n")
    assert (top.client and top.client.queue, top.groups) == ("quiet", [])
    press(top, "\x7f", "\n")
    assert [one.group for one in top.groups] == [("a",), ("b",), ("c",)]
    assert not top.press("q")


def test_a_key_acts_on_the_chosen_group(top: Top, seq: Sequencer) -> None:
    press(top, "\n", "KEY_DOWN", "r", "x")
    assert ([one.group for one in seq.parked()], chosen(top)) == ([("a",), ("c",)], "c")
    press(top, "KEY_LEFT", "KEY_LEFT", "KEY_LEFT")
    assert (top.state, len(top.groups)) == ("due", 1)


def test_a_message_that_was_not_shown_is_left_alone(top: Top, seq: Sequencer) -> None:
    press(top, "\n")
    seq.skip("a", id="a1")
    seq.consume(fail, until_empty=True)  # its head is another one now
    press(top, "r")
    assert next((one.group, one.failure and one.failure.id) for one in seq.parked()) == (("a",), "a2")
    assert "a2" in top.note


def test_the_choice_follows_its_group(top: Top, seq: Sequencer) -> None:
    press(top, "\n", "KEY_DOWN", "KEY_DOWN")
    seq.skip("a", id="a1")
    top.look()
    assert chosen(top) == "c"
    press(top, "\n")
    assert seq.explain("c").text in top.text()
    press(top, "\x7f")
    assert top.client is None


@pytest.mark.slow
def test_on_a_terminal_it_takes_the_whole_screen_and_gives_it_back(
    make: Make, server: EmbeddedServer, namespace: str
) -> None:
    park(make("jobs", max_attempts=1), "a")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "SEQUENCER_REDIS": server.url, "SEQUENCER_NAMESPACE": namespace, "TERM": "xterm"}
    command = [str(Path(sys.executable).parent / "sequencer"), "top"]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        try:
            os.set_blocking(master, False)
            seen = bytearray()

            def shows(text: bytes) -> bool:
                with suppress(BlockingIOError):
                    seen.extend(os.read(master, 65536))
                return text in seen

            wait_until(lambda: shows(b"\x1b[?1049h") and shows(b"> jobs"), 30, "the queues")
            os.write(master, b"\r")
            wait_until(lambda: shows(b"[parked 1]"), 30, "the groups")
            os.write(master, b"\r")
            wait_until(lambda: shows(b"sequencer resume jobs a"), 30, "the explanation")
            os.write(master, b"q")
            wait_until(lambda: shows(b"\x1b[?1049l") and process.poll() is not None, 30, "its end")
            assert process.returncode == 0
            assert termios.tcgetattr(slave)[3] & termios.ECHO
        finally:
            process.kill()
    os.close(master)
    os.close(slave)
    done = subprocess.run([*command, "jobs"], env=environment, capture_output=True, timeout=60, check=True)
    assert b"[parked 1]" in done.stdout
    assert b"\x1b" not in done.stdout
