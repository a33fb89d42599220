"""The command line. A command reads its arguments, calls the library with the same words, and renders the answer.

Not here: what a command does (`sequencer`), supervising processes (`processes`).
The rule: commands of one subject share a file; what they do to a queue can be done from Python with the same words.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    """Run the command line; returns the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open to the end
    from .main import run
    from .output import install

    gc.freeze()  # all that was imported stays
    gc.enable()
    install()
    return run()
