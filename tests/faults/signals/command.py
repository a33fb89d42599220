"""The command line with what SQ_SIGNALS_CONTROLS names changed in it and in its consumers."""

from __future__ import annotations

import importlib

from sequencer.processes.consumer_process import ConsumerProcess

from .controls import apply
from .controls_supervisor import CHANGES

if __name__ == "__main__":
    apply(CHANGES)
    ConsumerProcess.MODULE = "tests.faults.signals.worker"
    importlib.import_module("sequencer_start").main()
