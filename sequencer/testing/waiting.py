"""A wait that is not a sleep: for tests of things that happen when they happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], timeout_s: float = 10.0, what: str = "") -> T:
    """Wait until the predicate gives something true, and return that. Raises AssertionError after `timeout_s`."""
    until = time.monotonic() + timeout_s
    pause = 0.001
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(
                f"not within {timeout_s:g} s: {what or getattr(predicate, '__name__', predicate)}; last: {value!r}"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
