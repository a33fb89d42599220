"""No folder for temporary files."""

from __future__ import annotations

import json
import os
import signal

from .case import Case, case
from .cases_stops import stopping
from .scene import LeftOut, Scene

CASES: list[Case] = []


@case(CASES, memory_in_a_folder="not 0")
def no_temporary_folder(scene: Scene) -> None:
    """No folder for temporary files, as in a container that can't be written: print mode and --exec work."""
    if not hasattr(os, "memfd_create"):
        raise LeftOut("a file in memory is Linux's; elsewhere it needs a temporary folder")
    for number, words in enumerate(((), ("--exec", "cat >> printed"))):
        scene.append(f"{number}", {})
        running = scene.consume(*words, "--until-empty", app=False, changed=["no-temporary-folder"])
        scene.expect_end(running, 0)
        printed = running.printed if not words else (scene.directory / "printed").read_text()
        assert json.loads(printed)["id"] == f"{number}-0", "another message was printed"
        scene.faults["no temporary folder"] += 1
    running = scene.consume(app=False, changed=["no-temporary-folder"])
    scene.consumers(running, 1)
    scene.signal(signal.SIGTERM, [running.pid], "to the supervisor, without a temporary folder")
    stopping(scene, running)
    scene.expect_end(running, 0)
