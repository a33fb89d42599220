"""The real log of a help desk, where it is: `../shared/data` beside the repository. The project has no copy of it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

LOG = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "helpdesk.ndjson.gz"
EVENTS, TICKETS = 21_348, 4_580


def real_log() -> list[bytes]:
    """Its lines, in its own order. Skips the test where there is no such log."""
    if not LOG.exists():
        pytest.skip(f"no real log here: {LOG.name} is not in ../shared/data beside the repository")
    with gzip.open(LOG, "rb") as stream:
        return stream.readlines()
