"""The app of consumers whose supervisor breaks: `python -m sequencer.processes.worker.run` runs it, told where to
write by the environment. Message x-1 kills its first consumer, so that there is one to replace.
"""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path

from sequencer.testing import Recorder
from sequencer.values.message import Message

DIRECTORY = "SEQUENCER_CRASH_DIRECTORY"


@cache
def _recorder() -> Recorder:
    return Recorder(Path(os.environ[DIRECTORY]) / f"worker-{os.getpid()}.ndjson")


def handle(message: Message) -> None:
    """Record the run; die once."""
    _recorder().run(_work)(message)


def _work(message: Message) -> None:
    if message.id == "x-1":
        try:
            os.close(os.open(Path(os.environ[DIRECTORY]) / "died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        _recorder().note("fault", kind="consumer killed", id="x-1")
        os.kill(os.getpid(), signal.SIGKILL)
