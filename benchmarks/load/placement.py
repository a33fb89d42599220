"""Which processors a benchmark's processes run on: where they run changes rates of single round trips twofold.

apart     the server on one processor, all clients on the others
together  the server and all clients on one: a round trip then costs no wake-up of another processor
free      as the system places them
"""

from __future__ import annotations

import os
from typing import Literal, get_args

from sequencer.doctor.server import parse_info
from sequencer.net.endpoint import Endpoint
from sequencer.net.link import Link

Placement = Literal["apart", "together", "free"]


def parse(text: str) -> Placement:
    """Raises ValueError."""
    for one in get_args(Placement):
        if text == one:
            placement: Placement = one
            return placement
    raise ValueError(f"placement {text!r} must be one of {', '.join(get_args(Placement))}")


def server_cpus(placement: Placement) -> set[int] | None:
    """Where the server is to run; None: anywhere, also where processors can't be chosen or there is but one."""
    return None if _free(placement) else {min(os.sched_getaffinity(0))}


def client_cpus(placement: Placement) -> set[int] | None:
    """Where its clients are to run."""
    if _free(placement):
        return None
    cpus = os.sched_getaffinity(0)
    return {min(cpus)} if placement == "together" else cpus - {min(cpus)}


def _free(placement: Placement) -> bool:
    return placement == "free" or not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2


def place(pid: int, cpus: set[int] | None) -> None:
    """Let a process, and the threads that it starts from now on, run on these processors only."""
    if cpus:
        os.sched_setaffinity(pid, cpus)


def place_server(url: str, placement: Placement) -> None:
    """Place the server's main thread, which runs all commands; it must be of this machine. Raises ServerError."""
    cpus = server_cpus(placement)
    if cpus:
        link = Link(Endpoint.from_url(url))
        try:
            place(int(parse_info(link.command("INFO", "server").decode())["process_id"]), cpus)
        finally:
            link.close()
