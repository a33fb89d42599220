"""Processes that outlive those who started them, known by an entry of their environment (from /proc, on Linux only)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.02


def strays(mark: str) -> list[int]:
    """The processes that run with `mark` ("NAME=value") in their environment; one that has ended has none."""
    wanted, found = os.fsencode(mark), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def end_strays(mark: str, patience_s: float = 0.0) -> int:
    """Kill those that have not ended by themselves after so long; how many that were."""
    until = time.monotonic() + patience_s
    while (left := strays(mark)) and time.monotonic() < until:
        time.sleep(LOOK_S)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)
