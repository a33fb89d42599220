"""The version, in one place; `pyproject.toml` reads it from here. And the first import of the package: on a system on
which the rest would fail later, it says so in one sentence.
"""

import sys

if sys.platform == "win32":
    from ..texts.refusals import REFUSALS

    raise ImportError(REFUSALS["windows_unsupported"])
VERSION = "0.8.0"
