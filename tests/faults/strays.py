"""Processes that outlive those who started them, known by an entry of their environment (from /proc, on Linux only)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

CHECK_S = 0.02
END_S = 5.0
"""How long to go on killing: what the kernel holds may not end at once."""


def strays(mark: str) -> list[int]:
    """The processes that run with `mark` ("NAME=value") in their environment; one that has ended has none."""
    wanted, found = os.fsencode(mark), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def end_strays(mark: str, patience_s: float = 0.0) -> int:
    """Kill those that have not ended by themselves after so long, and whom they start meanwhile; how many that were."""
    until = time.monotonic() + patience_s
    while (left := strays(mark)) and time.monotonic() < until:
        time.sleep(CHECK_S)
    ended, until = set(left), time.monotonic() + END_S
    while left and time.monotonic() < until:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(CHECK_S)
        left = strays(mark)  # one of them may have started another before its own end
        ended.update(left)
    return len(ended)
