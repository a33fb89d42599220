"""Lets a handler say where it may be interrupted; without a word from it, that is anywhere.

An exception between two steps that belong together, as the start of a process and taking note of it, would lose the
first.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ..errors import StopConsuming


def name_of(number: int) -> str:
    """What a signal is called; those for real time have numbers only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


class _Place(threading.local):
    """Where the calling thread is, and whether it was to be interrupted there."""

    kind: Literal["anywhere", "held", "allowed"] = "anywhere"
    is_due = False


_place = _Place()


def interrupt() -> None:
    """Raise StopConsuming, now or when the calling thread, whose signal handler this is, allows it."""
    if _place.kind == "held":
        _place.is_due = True
        return
    if _place.kind == "allowed":
        _place.kind = "held"  # once: what is done about it is not to be interrupted
    raise StopConsuming("interrupted")


@contextmanager
def held() -> Iterator[None]:
    """No interruption within, but where `allowed`; one that came and was never allowed is forgotten at the end."""
    _place.is_due = False
    _place.kind = "held"
    try:
        yield
    finally:
        _place.kind = "anywhere"


@contextmanager
def allowed() -> Iterator[None]:
    """Within `held`: an interruption is raised here, also one that came before."""
    _place.kind = "allowed"
    try:
        if _place.is_due:
            interrupt()
        yield
    finally:
        _place.kind = "held"
