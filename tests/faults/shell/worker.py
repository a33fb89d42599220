"""A consumer process with what SQ_SHELL_TWINS names changed in it."""

from __future__ import annotations

import sys

from sequencer.processes.worker.run import main

from .twins import apply
from .twins_consumer import CHANGES

if __name__ == "__main__":
    apply(CHANGES)
    sys.exit(main())
