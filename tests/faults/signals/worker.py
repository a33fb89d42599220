"""A consumer process with what SQ_SIGNALS names changed in it."""

import sys

from sequencer.processes.worker.run import main

from .changes import apply

if __name__ == "__main__":
    apply()
    sys.exit(main())
