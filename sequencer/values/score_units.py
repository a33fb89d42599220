"""In what a score counts, where it is a time: seconds of one producer, milliseconds of another. Pure.

By magnitude: below 1e11 in seconds (until the year 5138), below 1e14 in milliseconds, above that in microseconds. What
has no score of its own is scored by its arrival, in seconds.
"""

MIN_TIME = 1e9
"""The least score that counts as a timestamp: September 2001 in seconds."""


def unit_of(score: float) -> str:
    """In what a score counts, if it is a time since 1970; as scripts call it."""
    return "s" if abs(score) < 1e11 else "ms" if abs(score) < 1e14 else "us"
