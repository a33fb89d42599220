"""The application of the cases: a message's body says what its handler does, and each step is written down.

It works in the directory of its scene, which is the working directory. With SQ_SIGNALS_IMPORT=linger its import
leaves a thread behind, in the supervisor too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from typing import Any

from sequencer.testing import wait_until
from sequencer.values.message import Message

from .settings import HISTORY, IMPORT

LONGEST_S = 120.0


def note(what: str, **fields: Any) -> None:
    """One line of the history, in one write."""
    with open(HISTORY, "ab", buffering=0) as history:
        history.write(json.dumps({"what": what, "pid": os.getpid(), "at": time.monotonic(), **fields}).encode() + b"\n")


def wait_for(admission: str) -> None:
    """Wait until the gate is open; each look leaves a beat, by which others see that this process goes on."""

    def look() -> bool:
        with open(f"beats-{os.getpid()}", "ab") as beats:
            beats.write(b".")
        return os.path.exists(admission)

    try:
        wait_until(look, LONGEST_S)
    except BaseException:
        note("cut")
        raise


def handle(message: Message) -> None:
    """What the body says, in this order."""
    body = message.body
    note("begun", id=message.id, attempt=message.attempt)
    while "stubborn" in body:
        try:
            wait_for("never")
        except BaseException:
            note("swallowed", id=message.id)
    if "gate" in body:
        wait_for(body["gate"])
    if body.get("die") == "first" and message.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if "stranger" in body:  # what outlives the shell that started it belongs to process 1
        subprocess.run(["/bin/sh", "-c", "exec >/dev/null 2>&1; sleep 1000 &"], check=True)
    note("handled", id=message.id)


if os.environ.get(IMPORT) == "linger":
    threading.Thread(target=threading.Event().wait, name="lingers").start()
