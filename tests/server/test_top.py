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
        seq.append_many({"body": 1, "group": group, "id": f"{group}{number}"} for number in (1, 2))
    seq.consume(fail, until_empty=True)


def press(top: Top, *keys: str) -> None:
    for key in keys:
        assert top.press(key)


def groups(top: Top) -> list[str]:
    """With a mark at the chosen one."""
    return [f"{'> ' * (one is top.group)}{one.group[0]}" for one in top.groups]


@pytest.fixture
def top(make: Make) -> Top:
    quiet, seq = make("quiet"), make(max_attempts=1)
    quiet.append(1, group="g")
    park(seq, "a", "b", "c")
    top = Top([quiet, seq])
    top.look()
    return top


def test_the_worst_queue_stands_first_and_each_is_opened(top: Top) -> None:
    assert [one.queue for one in top.infos] == ["jobs", "quiet"]
    press(top, "KEY_DOWN", "KEY_DOWN", "\n")
    assert (top.client and top.client.queue, top.groups) == ("quiet", [])
    press(top, "\x7f", "\n")
    assert groups(top) == ["> a", "b", "c"]
    assert not top.press("q")


def test_a_key_acts_on_the_chosen_group_which_the_choice_follows(top: Top, seq: Sequencer) -> None:
    press(top, "\n", "KEY_DOWN", "\n")
    assert seq.explain("b").text in top.text()
    seq.skip("a", id="a1")
    top.look()
    assert groups(top) == ["> b", "c"]
    press(top, "r", "x")
    assert groups(top) == ["> c"]
    press(top, "KEY_LEFT", "KEY_LEFT", "KEY_LEFT")
    assert (top.state, groups(top)) == ("due", ["> a", "b"])


def test_a_message_that_was_not_shown_is_left_alone(top: Top, seq: Sequencer) -> None:
    press(top, "\n")
    seq.skip("a", id="a1")
    seq.consume(fail, until_empty=True)  # its head is another one now
    press(top, "r")
    assert next((one.group, one.failure and one.failure.id) for one in seq.parked()) == (("a",), "a2")
    assert "a2" in top.note


@pytest.mark.slow
def test_on_a_terminal_it_takes_the_whole_screen_and_gives_it_back(
    make: Make, server: EmbeddedServer, namespace: str
) -> None:
    park(make("jobs", max_attempts=1), "a")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.set_blocking(master, False)
    environment = {**os.environ, "SEQUENCER_REDIS": server.url, "SEQUENCER_NAMESPACE": namespace, "TERM": "xterm"}
    command, seen = [str(Path(sys.executable).parent / "sequencer"), "top"], bytearray()

    def shows(text: bytes) -> bool:
        with suppress(BlockingIOError):
            seen.extend(os.read(master, 65536))
        return text in seen

    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        try:
            for text, key in ((b"> jobs", b"\r"), (b"[parked 1]", b"\r"), (b"sequencer resume jobs a", b"q")):
                wait_until(lambda: shows(text), 30, str(text))  # noqa: B023
                os.write(master, key)
            wait_until(lambda: shows(b"\x1b[?1049l") and process.poll() is not None, 30, "its end")
            assert (process.returncode, b"\x1b[?1049h" in seen) == (0, True)
            assert termios.tcgetattr(slave)[3] & termios.ECHO
        finally:
            process.kill()
    os.close(master)
    os.close(slave)
    done = subprocess.run([*command, "jobs"], env=environment, capture_output=True, timeout=60, check=True)
    assert (b"[parked 1]" in done.stdout, b"\x1b" in done.stdout) == (True, False)
