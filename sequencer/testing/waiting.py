"""A wait that is not a sleep: for tests of things that happen when they happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ..texts.refusals import refusal_text

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
            awaited = what or getattr(predicate, "__name__", str(predicate))
            raise AssertionError(refusal_text("not_in_time", {"what": awaited, "within_s": timeout_s, "last": value}))
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
