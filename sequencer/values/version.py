"""The version, in one place; `pyproject.toml` reads it from here. And the first import of the package: on a system on
which the rest would fail later, it says so in one sentence.
"""

import sys

if sys.platform == "win32":
    raise ImportError("sequencer runs on Linux and macOS; on Windows, run it in WSL or in a container")
VERSION = "0.8.0"
