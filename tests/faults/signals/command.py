"""The command line, and consumers of it, with what SQ_SIGNALS names changed in them."""

import importlib

from sequencer.processes.consumer_process import ConsumerProcess

from .changes import apply

if __name__ == "__main__":
    apply()
    ConsumerProcess.MODULE = "tests.faults.signals.worker"
    importlib.import_module("sequencer_start").main()
