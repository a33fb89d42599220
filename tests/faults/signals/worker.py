"""A consumer process with what SQ_SIGNALS_CONTROLS names changed in it."""

from __future__ import annotations

import sys

from sequencer.processes.worker.run import main

from .controls import apply
from .controls_consumer import CHANGES

if __name__ == "__main__":
    apply(CHANGES)
    sys.exit(main())
