"""The one parser of durations, for Python, the command line and files alike. Pure; it imports no other room."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

RUN_BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 180.0, 600.0)
"""By which handlers are counted: how many took at most so long."""
Duration = float | str | timedelta
"""A number of seconds, text with a unit as "90s", "5m", "2h", "1d" or "500ms", or a timedelta."""

LONGEST_S = 100 * 366 * 86_400.0  # far below the time in us by which scripts know a paused group
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_TEXT = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([a-z]*)\Z", re.IGNORECASE | re.ASCII)


def seconds(duration: Any) -> float | None:
    """A duration in seconds, up to 100 years; plain text is in seconds. None for what is not a duration."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    elif isinstance(duration, str):
        duration = _of_text(duration.strip())
    is_number = isinstance(duration, int | float) and not isinstance(duration, bool)
    return duration if is_number and 0 <= duration <= LONGEST_S else None


def _of_text(text: str) -> float | None:
    found = _TEXT.match(text)
    return float(found[1]) * _UNITS[found[2]] if found and found[2] in _UNITS else None
