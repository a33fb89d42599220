"""The process of a consumer: its name; the message in progress, for its supervisor; the signals that it takes; and
children that the application forks, which have none of these and never become a second consumer.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from ..values.message import Message
from ..values.owner import owner_text

GROUP_SIZE = 640  # in memory the group comes first, its parts with a NUL between two; what is longer is cut
CURRENT_GROUP, CURRENT_ID = struct.Struct(f"{GROUP_SIZE}s"), struct.Struct("384s")
Memory = mmap.mmap | None  # where a supervisor reads which message its consumer began last, or nobody does


def owner_name() -> str:
    """The lease owner's name: host, process and a few random characters."""
    return owner_text(socket.gethostname(), os.getpid(), random.randrange(16**6))


def remember_current(memory: Memory, message: Message | None) -> Message | None:
    """This message is begun, or none is in progress. `threads.py` writes a plain handler's without this call."""
    if memory is not None:
        if message is not None:
            note_group(memory, message.group)
        CURRENT_ID.pack_into(memory, GROUP_SIZE, message.id.encode("utf-8", "surrogateescape") if message else b"")
    return message


def note_group(memory: mmap.mmap, group: tuple[str, ...]) -> tuple[str, ...]:
    CURRENT_GROUP.pack_into(memory, 0, "\0".join(group).encode("utf-8", "surrogateescape"))
    return group


class Fork:
    """`count`: how often this process is a copy of another."""

    count = 0


SignalHandler = Callable[[int, FrameType | None], object] | int
_taken: list[tuple[int, Any]] = []
"""Signals that this process handles for us, and how each was handled before."""


class _Mask(threading.local):
    before: set[int] | None = None


_mask = _Mask()


def take_signal(number: int, handler: SignalHandler) -> tuple[int, Any]:
    """Handle this signal from now on; a forked child handles it as before."""
    taken = number, signal.signal(number, handler)
    _taken.append(taken)
    return taken


@contextmanager
def signals_taken(handlers: Mapping[int, SignalHandler]) -> Iterator[None]:
    """Within, handle these signals; a forked child handles them as before."""
    taken = [take_signal(number, handler) for number, handler in handlers.items()]
    try:
        yield
    finally:
        for one in reversed(taken):
            if one in _taken:
                _taken.remove(one)
                _release(*one)


def _release(number: int, handler: Any) -> None:
    signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: code in C had it


def _before_fork() -> None:
    """Block our signals: one that reaches the child before it has dropped our handlers would be swallowed."""
    if _taken:
        _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, {number for number, _ in _taken})


def _after_fork() -> None:
    before, _mask.before = _mask.before, None
    if before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _after_fork_in_child() -> None:
    Fork.count += 1
    if _taken:
        signal.set_wakeup_fd(-1)
    while _taken:
        _release(*_taken.pop())
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)


@contextmanager
def not_in_a_copy() -> Iterator[None]:
    """A child forked within this block ends when it leaves the block."""
    count, problem = Fork.count, None
    try:
        yield
    except BaseException as error:
        problem = error
        raise
    finally:
        if count != Fork.count:
            exit_child(problem)


def exit_child(error: BaseException | None) -> NoReturn:
    """End a child that the application forked and that returned to us, so that it is not a second consumer."""
    code: Any = 0
    if isinstance(error, SystemExit):
        code = error.code
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code or 0)
