"""How many examples a search takes: all of them at night, a fifth before a merge."""

from __future__ import annotations

import os

IS_NIGHTLY = os.environ.get("SEQUENCER_TESTS") == "nightly"


def examples(at_night: int) -> int:
    return at_night if IS_NIGHTLY else max(10, at_night // 5)
