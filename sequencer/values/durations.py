"""The one parser of durations, for Python, the command line and files alike. Pure; it imports no other room."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

Duration = float | str | timedelta
"""A number of seconds, text with a unit as "90s", "5m", "2h", "1d" or "500ms", or a timedelta."""

LONGEST_S = 100 * 366 * 86_400.0  # far below the time in us by which scripts know a paused group
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_TEXT = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*([a-z]*)\Z", re.IGNORECASE | re.ASCII)
EXPECTED = "a number of seconds, or text like 90s, 5m, 2h, 1d or 500ms"


def seconds(duration: Any) -> float:
    """A duration in seconds, up to 100 years; plain text is in seconds. Raises ValueError: what is expected."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    elif isinstance(duration, str):
        duration = _of_text(duration.strip())
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not 0 <= duration < float("inf"):
        raise ValueError(EXPECTED)
    if duration > LONGEST_S:
        raise ValueError(f"at most {LONGEST_S:.0f} s")
    return duration


def _of_text(text: str) -> float:
    found = _TEXT.match(text)
    if not found or found[2] not in _UNITS:
        raise ValueError(EXPECTED)
    return float(found[1]) * _UNITS[found[2]]
