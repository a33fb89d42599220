"""Where a handler may be interrupted: anywhere, unless it masks interrupts as a command handler does.

An exception between two steps that belong together, as the start of a process and taking note of it, would lose the
first.

SIGUSR2 interrupts the main thread, since only a signal ends what a handler waits for. It comes at the second stage of a
stop and at the end of a handler's time. Who hears it looks whether it is meant: anybody may send it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

from ..errors import StopConsuming
from .forks import take_signal

SIGNAL = signal.SIGUSR2
Hearer = Callable[[FrameType | None], None]
"""Called in the main thread with what that did just then; may raise into it."""
_hearers: list[Hearer] = []
os.register_at_fork(after_in_child=_hearers.clear)


def hear(hearer: Hearer) -> None:
    """Call this at SIGNAL too. The signal stays ours for good: one that is on its way must not end the process."""
    if hearer not in _hearers:
        _hearers.append(hearer)
    take_signal(SIGNAL, _on_signal)


def forget(hearer: Hearer) -> None:
    """Call this no more."""
    _hearers.remove(hearer)


def send() -> None:
    """Send SIGNAL to the main thread, from any other."""
    signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)


def is_ours() -> bool:
    """Whether SIGNAL comes to `hear`."""
    return signal.getsignal(SIGNAL) == _on_signal


def is_free() -> bool:
    """Whether the application leaves SIGNAL to us."""
    return is_ours() or signal.getsignal(SIGNAL) in (signal.SIG_DFL, signal.SIG_IGN)


def is_ctrl_c(error: BaseException) -> bool:
    """Whether it may come from a SIGINT: only while Python's own handler is there; else the application raised it."""
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(error, KeyboardInterrupt) and is_heard and threading.current_thread() is threading.main_thread()


def _on_signal(_number: int, frame: FrameType | None) -> None:
    for hearer in tuple(_hearers):
        hearer(frame)


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
    _mask.state = "masked"
    try:
        yield
    finally:
        _mask.state, _mask.is_pending = "unmasked", False


@contextmanager
def interrupts_allowed() -> Iterator[None]:
    """Within `interrupts_masked`: an interrupt is raised here, also one that came before."""
    before, _mask.state = _mask.state, "allowed"
    try:
        if _mask.is_pending:
            interrupt()
        yield
    finally:
        _mask.state = before
