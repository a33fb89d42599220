"""The first import of the package: a system on which the rest would fail later is refused here, in one sentence."""

import sys

if sys.platform == "win32":
    raise ImportError("sequencer runs on Linux and macOS; on Windows, run it in WSL or in a container")
