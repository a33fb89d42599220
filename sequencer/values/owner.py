"""The name of a consumer, by which a lease says who holds it: host, process and a few random characters; and whether
it has held that for too long. Pure.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_NAME = re.compile(r"(?P<host>.+):(?P<pid>\d{1,10}):[0-9a-f]{6}")


LONG_LEASES = 10
"""A group that is leased for longer than this number of leases, about, is named: its handler may hang."""
CLOCKS_DIFFER_S = 60.0
"""The clock of the server, by which a lease began, and that of this host differ by less."""
LEAST_LEFT_US = 2_000_000
"""What is left of a lease counts as this much at least, so that a short one that nobody renews is not named."""


def is_held_long(now_us: float, since_us: float, until_us: float) -> bool:
    """Whether a lease has lasted for about LONG_LEASES leases or more.

    The server does not know how long one is. It is renewed at a third of its time, so that at least two thirds are
    left: it is 1.5 times of that at most.
    """
    return now_us - since_us > LONG_LEASES * 1.5 * max(until_us - now_us, LEAST_LEFT_US)


def advice(owner: str, since_us: float) -> str:
    """What helps where a consumer has held a group for too long."""
    end = ending(owner, since_us)
    return end if is_gone(owner, since_us) else f"that is long; {end}, and set --handler-timeout"


def ending(owner: str, since_us: float) -> str:
    """What ends a handler that hangs, in a sentence; or that its process, which took the lease then, is gone."""
    found = _NAME.fullmatch(owner)
    if found and is_gone(owner, since_us):
        gone = f"process {found['pid']} on {found['host']} is gone"
        return f"{gone}, so nobody prolongs that lease: another consumer takes the group when it ends"
    end = f"end that process (on {found['host']}: {end_command(owner)})" if found else "end that consumer"
    return f"if its handler hangs, {end}"


def is_gone(owner: str, since_us: float) -> bool:
    """Whether we are on the host of a consumer, and no process there has its number, or one that began long after it
    took its lease. Of another host we know nothing.
    """
    found = _NAME.fullmatch(owner)
    if not found or found["host"] != os.uname().nodename:
        return False
    try:
        os.kill(int(found["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    began_s = _began_s(found["pid"])
    return began_s is not None and began_s > since_us / 1e6 + CLOCKS_DIFFER_S


def _began_s(pid: str) -> float | None:
    """When a process began, in seconds since 1970; None where the system does not say."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return float(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def owner_text(host: str, pid: int, mark: int) -> str:
    """The name of the consumer in this process; `mark` tells it from others there."""
    return f"{host}:{pid}:{mark:06x}"


def end_command(owner: str) -> str:
    """The command that ends the process of a consumer, on its own host; "" for a name that is not one of ours."""
    found = _NAME.fullmatch(owner)
    return f"kill -KILL {found['pid']}" if found else ""
