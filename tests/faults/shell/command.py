"""The command line with what SQ_SHELL_TWINS names changed in it and in its consumers."""

from __future__ import annotations

import importlib

from sequencer.processes.pool import Pool

from .twins import apply
from .twins_supervisor import CHANGES

if __name__ == "__main__":
    apply(CHANGES)
    Pool.WORKER = "tests.faults.shell.worker"
    importlib.import_module("sequencer_start").main()
