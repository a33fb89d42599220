"""Nobody reads standard error any more: a stop is heard all the same, and the end of the supervisor too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sequencer.testing import wait_until

if TYPE_CHECKING:
    from .conftest import Cli, Work

PATIENCE_S = 30.0
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
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
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
    finally:
        consume.kill()
        consume.wait()
        os.close(reader)
        os.close(writer)
