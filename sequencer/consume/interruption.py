"""Where a handler may be interrupted: anywhere, unless it masks interrupts as a command handler does.

An exception between two steps that belong together, as the start of a process and taking note of it, would lose the
first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ..errors import StopConsuming


class _Mask(threading.local):
    """Whether the calling thread may be interrupted, and whether an interrupt is pending there."""

    state: Literal["unmasked", "masked", "allowed"] = "unmasked"
    is_pending = False


_mask = _Mask()


def interrupt() -> None:
    """Raise StopConsuming, now or when the calling thread, whose signal handler this is, allows it."""
    if _mask.state == "masked":
        _mask.is_pending = True
        return
    if _mask.state == "allowed":
        _mask.state = "masked"  # once: what is done about it is not to be interrupted
    raise StopConsuming("interrupted")


@contextmanager
def interrupts_masked() -> Iterator[None]:
    """No interrupt within, but in `interrupts_allowed`; one that is still pending at the end is dropped."""
    _mask.is_pending = False
    _mask.state = "masked"
    try:
        yield
    finally:
        _mask.state = "unmasked"


@contextmanager
def interrupts_allowed() -> Iterator[None]:
    """Within `interrupts_masked`: an interrupt is raised here, also one that came before."""
    _mask.state = "allowed"
    try:
        if _mask.is_pending:
            interrupt()
        yield
    finally:
        _mask.state = "masked"
