"""What can be seen of processes from outside: whose child one is, whether it lives, what it does with signals."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def living() -> Iterator[tuple[int, int]]:
    """Each living process and its parent; from /proc, or from ps where there is none."""
    if Path("/proc/self/stat").exists():
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                state, parent = path.read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    yield int(path.parent.name), int(parent)
        return
    said = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    for pid, parent, state in map(str.split, said.splitlines()):
        if not state.startswith("Z"):
            yield int(pid), int(parent)


def children(pid: int) -> list[int]:
    """The living processes that it started, oldest first."""
    return sorted(child for child, parent in living() if parent == pid)


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and was not taken note of does not."""
    return any(pid == one for one, _ in living())


def command_line(pid: int) -> str:
    """Its words; empty when it is gone."""
    if not Path("/proc/self/cmdline").exists():
        words = ["ps", "-p", str(pid), "-o", "args="]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def has_signal(pid: int, field: str, number: signal.Signals) -> bool:
    """Whether a line of /proc/PID/status (SigCgt, SigIgn, SigBlk) names this signal; False when it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, mask = line.partition(":")
            if name == field:
                return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal; nothing happens when it is gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
