"""One producer or consumer of a version of the package, on a queue that several versions share; see versions.py.

produce N            append N messages of its own and N that every version appends, once a line comes in
consume [DIES_AT]    consume until SIGTERM, or die by SIGKILL in its run of that number
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Any

import sequencer
from sequencer import Message
from sequencer.testing import Recorder

from .version_client import be_as_asked, queue

GROUPS = 50
LEASE_S = 3.0
recorder = Recorder(os.environ["VERSION_HISTORY"])
seq = queue("load", max_attempts=1000)


def produce(count: int) -> None:
    """Append `count` messages of our own and `count` that each version appends, by turns one by one and in batches."""
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(count):
        items: list[dict[str, Any]] = [
            {"body": n, "group": [n % GROUPS], "id": id, "headers": {"n": str(n)} if n % 3 else {}}
            for id in (f"{sequencer.__version__}-{n}", f"all-{n}")
        ]
        for item in items:
            recorder.note("appending", group=f"{n % GROUPS}", id=item["id"])
        if n % 2:
            kinds = [f"{seq.append(**item).outcome}" for item in items]
        else:
            receipt = seq.append_many(items)
            kinds = ["stored"] * receipt.appended + ["duplicate"] * receipt.duplicates
        for item, kind in zip(items, kinds, strict=True):
            recorder.note("appended", group=f"{n % GROUPS}", id=item["id"], kind=kind)


def consume(dies_at: int = 0) -> None:
    """Handle until SIGTERM. One message in 40 fails at its first try; `dies_at` says in which run to die."""
    runs = 0
    logging.disable()  # nobody reads what is said of the tries that fail

    @recorder.run
    def handle(message: Message) -> None:
        nonlocal runs
        runs += 1
        if runs == dies_at:
            recorder.note("fault", kind="killed")
            os.kill(os.getpid(), signal.SIGKILL)
        if message.body % 40 == 7 and message.attempt == 1:
            raise ValueError("the first try fails")

    seq.consume(handle, lease=LEASE_S, on_start=lambda _: print("ready", flush=True))


if __name__ == "__main__":
    be_as_asked()
    role, *numbers = sys.argv[1:]
    (produce if role == "produce" else consume)(*map(int, numbers))
